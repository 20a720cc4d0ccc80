#!/usr/bin/env bash
# Makes an OCI image from what scripts/musl.sh made, and checks it: tar, gzip, sha256sum and a few lines of JSON; neither
# Docker nor a registry. The same input gives the same digests.
#
#   scripts/oci.sh PREFIX OUT-DIRECTORY               # PREFIX: the directory given to scripts/musl.sh
#   skopeo copy oci:OUT-DIRECTORY:VERSION docker-daemon:oncewire:VERSION
#
# Checks digests and configuration, unpacks the layers, and runs the demo in them as the image's user (that as root only);
# with skopeo and umoci installed, what they read and unpack, too.
set -euo pipefail
prefix="$(realpath "${1:?what musl.sh made}")" out="$(realpath -m "${2:?directory for the image}")"
[ ! -e "$out" ] || { echo "oci.sh: $out exists" >&2; exit 1; }
cd "$(dirname "$0")/.."
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)"
epoch="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
created="$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)"
user=65532
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
umask 022

# Two layers: what hardly changes, and the program.
mkdir -p "$work/base/etc/oncewire" "$work/base/tmp" "$work/base/var/lib/oncewire" "$work/program/usr" "$out/blobs/sha256"
chmod 1777 "$work/base/tmp"
chmod 700 "$work/base/var/lib/oncewire" "$work/base/etc/oncewire"
echo "root:x:0:0:root:/:/sbin/nologin
oncewire:x:$user:$user:oncewire:/var/lib/oncewire:/sbin/nologin" > "$work/base/etc/passwd"
echo "root:x:0:
oncewire:x:$user:" > "$work/base/etc/group"
cp -r "$prefix/bin" "$prefix/share" "$work/program/usr"
mkdir -p "$work/program/usr/share/doc/oncewire"
cp LICENSE-MIT LICENSE-APACHE README.md SECURITY.md "$work/program/usr/share/doc/oncewire"
chmod -R u=rwX,go=rX "$work/program"

archive() {
  local layer="$1" as=(--sort=name --format=pax --pax-option=delete=atime,delete=ctime --numeric-owner --mtime="@$epoch")
  shift
  tar -C "$work/$layer" "${as[@]}" --owner=0 --group=0 -cf "$work/$layer.tar" --exclude=./var/lib/oncewire --exclude=./etc/oncewire .
  [ $# -eq 0 ] || tar -C "$work/$layer" "${as[@]}" --owner=$user --group=$user -rf "$work/$layer.tar" "$@"
}
archive base ./var/lib/oncewire ./etc/oncewire
archive program

digest() { sha256sum "$1" | cut -d' ' -f1; }
# Moves a file to the blobs and prints its descriptor.
blob() {
  local name
  name="$(digest "$1")"
  mv "$1" "$out/blobs/sha256/$name"
  printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%d}' "$2" "$name" "$(stat -c %s "$out/blobs/sha256/$name")"
}
layers=() ids=()
for layer in base program; do
  ids+=("\"sha256:$(digest "$work/$layer.tar")\"")
  gzip -9n "$work/$layer.tar"
  layers+=("$(blob "$work/$layer.tar.gz" layer.v1.tar+gzip)")
done
join() { local IFS=,; echo "$*"; }
cat > "$work/config" <<JSON
{"created":"$created","architecture":"amd64","os":"linux","config":{"User":"$user:$user","ExposedPorts":{"7077/tcp":{},"7077/udp":{}},
"Env":["PATH=/usr/bin"],"Entrypoint":["/usr/bin/oncewire"],"Cmd":["--help"],"WorkingDir":"/var/lib/oncewire","StopSignal":"SIGTERM",
"Labels":{"org.opencontainers.image.title":"oncewire","org.opencontainers.image.version":"$version",
"org.opencontainers.image.licenses":"MIT OR Apache-2.0","org.opencontainers.image.description":"Removes repeated bytes from network traffic"}},
"rootfs":{"type":"layers","diff_ids":[$(join "${ids[@]}")]},
"history":[{"created":"$created","created_by":"scripts/oci.sh: user and directories"},{"created":"$created","created_by":"scripts/oci.sh: program"}]}
JSON
config="$(blob "$work/config" config.v1+json)"
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}' \
  "$config" "$(join "${layers[@]}")" > "$work/manifest"
manifest="$(blob "$work/manifest" manifest.v1+json)"
printf '{"schemaVersion":2,"manifests":[%s,"platform":{"architecture":"amd64","os":"linux"},"annotations":{"org.opencontainers.image.ref.name":"%s"}}]}' \
  "${manifest%\}}" "$version" > "$out/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' > "$out/oci-layout"

# ---- Checks: what was written, read again.
python3 - "$out" "$work/rootfs" "$user" <<'CHECK'
import gzip, hashlib, io, json, os, sys, tarfile
out, root, user = sys.argv[1:]
seen = set()
def blob(descriptor):
    name = descriptor["digest"].split(":")[1]
    content = open(os.path.join(out, "blobs/sha256", name), "rb").read()
    assert hashlib.sha256(content).hexdigest() == name and len(content) == descriptor["size"], name
    seen.add(name)
    return content
index = json.load(open(os.path.join(out, "index.json")))
manifest = json.loads(blob(index["manifests"][0]))
image = json.loads(blob(manifest["config"]))
config = image["config"]
assert config["User"].split(":")[0] == user != "0"
assert config["Entrypoint"] == ["/usr/bin/oncewire"]
assert set(config["ExposedPorts"]) == {"7077/tcp", "7077/udp"}
assert len(manifest["layers"]) == len(image["rootfs"]["diff_ids"])
for layer, identity in zip(manifest["layers"], image["rootfs"]["diff_ids"]):
    content = gzip.decompress(blob(layer))
    assert "sha256:" + hashlib.sha256(content).hexdigest() == identity
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            assert not member.name.startswith("/") and ".." not in member.name.split("/"), member.name
            assert not member.mode & 0o6000, member.name
        archive.extractall(root, numeric_owner=True)
assert seen == set(os.listdir(os.path.join(out, "blobs/sha256"))), "blobs that nothing names"
CHECK
if [ "$(id -u)" = 0 ]; then
  chroot --userspec=$user:$user "$work/rootfs" /usr/bin/oncewire demo --json > "$work/demo.json"
  chroot --userspec=$user:$user "$work/rootfs" /usr/bin/oncewire keygen /var/lib/oncewire/a.key > /dev/null
  grep -q transfers "$work/demo.json"
fi
if command -v skopeo >/dev/null; then
  skopeo inspect --config "oci:$out:$version" | grep -q "\"User\": \"$user:$user\""
  [ "$(skopeo inspect --format '{{.Digest}}' "oci:$out:$version")" = "$(sed 's/.*"digest":"\([^"]*\)".*/\1/' "$out/index.json")" ]
fi
if command -v umoci >/dev/null && [ "$(id -u)" = 0 ]; then
  umoci unpack --image "$out:$version" "$work/bundle" >/dev/null
  cmp "$work/bundle/rootfs/usr/bin/oncewire" "$prefix/bin/oncewire"
  chroot --userspec=$user:$user "$work/bundle/rootfs" /usr/bin/oncewire --version
fi
echo "oci:$out:$version $(du -sk "$out" | cut -f1) kB" "$(sed 's/.*"digest":"\([^"]*\)".*/\1/' "$out/index.json")"
