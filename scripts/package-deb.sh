#!/usr/bin/env bash
# Makes a Debian package of the release build: the program, manual pages, completions, systemd units, documents and
# examples. Needs dpkg-dev and binutils.
#
#   scripts/package-deb.sh OUT-DIRECTORY             # prints the path of the package
#   VERSION=0.1.0+1 scripts/package-deb.sh OUT-DIRECTORY
#   PROGRAM=out/bin/oncewire scripts/package-deb.sh OUT-DIRECTORY   # with one that is already built
set -euo pipefail
out="$(mkdir -p "${1:?directory for the package}" && cd "$1" && pwd)"
program="${PROGRAM:+$(realpath "$PROGRAM")}"
cd "$(dirname "$0")/.."

if [ -z "$program" ]; then
  cargo build --release --locked --quiet
  program=target/release/oncewire
fi
version="${VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)}"
architecture="$(dpkg --print-architecture)"
root="$(mktemp -d)"
trap 'rm -rf "$root"' EXIT
umask 022
chmod 755 "$root"

install -Ds -m 755 "$program" "$root/usr/bin/oncewire"
"$program" man "$root/usr/share/man/man1" >/dev/null
gzip -9n "$root"/usr/share/man/man1/*
completions() { install -d "$(dirname "$2")"; "$program" completions "$1" > "$2"; }
completions bash "$root/usr/share/bash-completion/completions/oncewire"
completions zsh "$root/usr/share/zsh/vendor-completions/_oncewire"
completions fish "$root/usr/share/fish/vendor_completions.d/oncewire.fish"
for unit in docs/examples/*.service docs/examples/*.socket; do
  install -Dm 644 "$unit" "$root/usr/lib/systemd/system/$(basename "$unit")"
done
sed -i 's,/usr/local/bin/,/usr/bin/,' "$root"/usr/lib/systemd/system/*

documents="$root/usr/share/doc/oncewire"
install -d "$documents/examples"
cp docs/GUIDE.md docs/LINK.md docs/OPERATING.md SECURITY.md README.md "$documents"
cp docs/examples/*.toml "$documents/examples"
cp -r docs/examples/monitoring "$documents/examples"
gzip -9nc CHANGELOG.md > "$documents/changelog.gz"
{
  echo "Oncewire may be used under either of these licenses."
  for license in LICENSE-MIT LICENSE-APACHE; do printf '\n%s\n\n' "---- $license"; cat "$license"; done
} > "$documents/copyright"
# Modes of the checkout depend on who made it.
chmod -R u=rwX,go=rX "$root"

# dpkg-shlibdeps wants a source package around it.
work="$root.work"
mkdir -p "$work/debian"
trap 'rm -rf "$root" "$work"' EXIT
touch "$work/debian/control"
depends="$(cd "$work" && dpkg-shlibdeps -O "$root/usr/bin/oncewire" 2>/dev/null | sed 's/^shlibs:Depends=//')"
install -d "$root/DEBIAN"
cat > "$root/DEBIAN/control" <<CONTROL
Package: oncewire
Version: $version
Architecture: $architecture
Maintainer: The Oncewire contributors <contributors@oncewire.invalid>
Section: net
Priority: optional
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: adduser${depends:+, $depends}
Recommends: iproute2
Description: removes repeated bytes from network traffic
 Two ends keep what they have sent, and send each byte once: a tunnel for TCP
 connections, a link for packets, and packed files. It also measures what a
 network would save, and plans where in it to remove repeats.
CONTROL
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
install -m 755 packaging/debian/* "$root/DEBIAN"
package="$out/oncewire_${version}_$architecture.deb"
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
echo "$package"
