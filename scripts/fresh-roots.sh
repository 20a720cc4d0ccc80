#!/usr/bin/env bash
# From `apt install` to the first saved byte: replays the transcript of docs/OPERATING.md ("Install on Debian") in two fresh
# Debian roots with systemd, joined by a network of their own. Fails if a command fails, if there are more than ten, if they
# take more than five minutes, if a byte is wrong or if the second download saves nothing. Needs root, debootstrap,
# systemd-container, python3; makes the root in DIRECTORY the first time.
#
#   scripts/fresh-roots.sh PACKAGE DIRECTORY
#   scripts/fresh-roots.sh "$(scripts/package-deb.sh out)" /var/tmp/fresh
set -euo pipefail
package="$(realpath "$1")" base="$2"
document="$(dirname "$(realpath "$0")")/../docs/OPERATING.md"
[ -e "$base/etc/debian_version" ] ||
  debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,adduser,iproute2,curl bookworm "$base" \
    ${MIRROR:+"$MIRROR"} >&2

tag="ow$$" roots=() pids=()
stop() {
  local status=$?
  [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
  for name in hub branch; do
    [ -z "${leader[$name]:-}" ] || kill -KILL "${leader[$name]}" 2>/dev/null || true
  done
  wait 2>/dev/null || true
  for name in hub branch; do ip netns delete "$tag-$name" 2>/dev/null || true; done
  rm -rf "${roots[@]}"
  exit $status
}
declare -A leader key
trap stop EXIT

for name in hub branch; do
  ip netns add "$tag-$name"
  ip -n "$tag-$name" link set lo up
done
ip link add "$tag" netns "$tag-hub" type veth peer name "$tag" netns "$tag-branch"
ip -n "$tag-hub" address add 10.79.0.1/24 dev "$tag"
# The origin is beside the hub: an address that the branch cannot reach.
ip -n "$tag-hub" address add 10.80.0.1/32 dev lo
ip -n "$tag-branch" address add 10.79.0.2/24 dev "$tag"
for name in hub branch; do ip -n "$tag-$name" link set "$tag" up; done

www="$(mktemp -d)"
roots+=("$www")
head -c 3000000 /dev/urandom > "$www/file"
ip netns exec "$tag-hub" python3 -m http.server --bind 10.80.0.1 --directory "$www" 80 >/dev/null 2>&1 &
pids+=($!)

for name in hub branch; do
  root="$base.$tag-$name"
  roots+=("$root")
  cp -a --reflink=auto "$base" "$root"
  cp "$package" "$root/root"
  echo "127.0.0.1 localhost
10.79.0.1 hub.example
10.80.0.1 origin.example" > "$root/etc/hosts"
  echo "$name" > "$root/etc/hostname"
  systemd-nspawn --quiet --directory="$root" --boot --register=no --keep-unit --machine="$tag-$name" --console=pipe \
    --network-namespace-path="/run/netns/$tag-$name" --resolv-conf=off --timezone=off < /dev/null > "$root.log" 2>&1 &
  pids+=($!)
  roots+=("$root.log")
  for ((tries = 0; ; tries++)); do
    leader[$name]="$(cat "/proc/${pids[-1]}/task/${pids[-1]}/children" 2>/dev/null | tr ' ' '\n' | tail -n +1 | head -1 || true)"
    if [ -n "${leader[$name]}" ] && [ -e "/proc/${leader[$name]}/root/run/systemd/private" ]; then break; fi
    [ $tries -lt 300 ] || { cat "$root.log" >&2; echo "fresh-roots: $name does not start" >&2; exit 1; }
    sleep 0.1
  done
done
inside() {
  local name="$1"
  shift
  nsenter --target "${leader[$name]}" --mount --uts --ipc --net --pid --root --wd -- \
    env -i HOME=/root DEBIAN_FRONTEND=noninteractive PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    bash -c "cd /root; $*"
}

transcript="$(sed -n '/^<!-- transcript -->/,/^```$/p' "$document" | grep -E '^(hub|branch)# ')"
begin=$(date +%s) count=0
while read -r -u 3 prompt command; do
  name="${prompt%#}" count=$((count + 1))
  # The package may have another version than the text.
  command="${command/oncewire_*_amd64.deb/$(basename "$package")}"
  for end in "${!key[@]}"; do command="${command//ow1...$end/${key[$end]}}"; done
  echo "$prompt $command"
  output="$(inside "$name" "$command" 2>&1)" || { echo "$output"; echo "fresh-roots: that failed" >&2; exit 1; }
  found="$(grep -oE 'ow1[A-Za-z0-9_-]{20,}' <<< "$output" | head -1 || true)"
  [ -z "$found" ] || key[$name]="$found"
done 3<<< "$transcript"
took=$(($(date +%s) - begin))

for got in first second; do cmp "$base.$tag-branch/root/$got" "$www/file"; done
status="$(inside branch 'oncewire status --json --socket /run/oncewire-connect/status.sock')"
wire="$(python3 -c 'import json, sys; s = json.load(sys.stdin)[0]; print(s["transport_received_bytes"])' <<< "$status")"
echo "fresh-roots: $count commands, $took s; 6000000 bytes arrived, $wire crossed"
[ "$count" -le 10 ] && [ "$count" -ge 5 ] && [ "$took" -le 300 ] && [ "$wire" -lt 3500000 ]
