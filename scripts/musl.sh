#!/usr/bin/env bash
# Makes a static program for any Linux on x86-64 (musl, profile `dist`: smaller, and slower to build than a release), with
# manual pages and completions, as a tree for /usr/local. Checks that it is static, and runs its demo in an empty root. Needs
# musl-tools, binutils and rustup; minutes.
#
#   scripts/musl.sh OUT-DIRECTORY                     # prints the path of the program
#   PROFILE=release scripts/musl.sh OUT-DIRECTORY
#   scripts/musl.sh OUT-DIRECTORY PROGRAM             # with one that is already built
set -euo pipefail
out="$(mkdir -p "${1:?directory for the program}" && cd "$1" && pwd)"
program="${2:+$(realpath "$2")}"
cd "$(dirname "$0")/.."
target=x86_64-unknown-linux-musl profile="${PROFILE:-dist}"

if [ -z "$program" ]; then
  command -v musl-gcc >/dev/null || { echo "musl.sh: needs musl-gcc (Debian: musl-tools)" >&2; exit 1; }
  [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || rustup target add "$target" >&2
  CC_x86_64_unknown_linux_musl=musl-gcc cargo build --profile "$profile" --locked --quiet --target "$target"
  program="${CARGO_TARGET_DIR:-target}/$target/$profile/oncewire"
fi
umask 022
install -Ds -m 755 "$program" "$out/bin/oncewire"
program="$out/bin/oncewire"

# Neither an interpreter nor a library: it runs where there is nothing else. An empty root proves it.
headers="$(readelf --program-headers --dynamic --wide "$program")"
if grep -E 'INTERP|\(NEEDED\)' <<< "$headers" >&2; then
  echo "musl.sh: the program is not static" >&2
  exit 1
fi
root="$(mktemp -d)"
trap 'rm -rf "$root"' EXIT
mkdir "$root/tmp"
cp "$program" "$root"
if unshare --map-root-user true 2>/dev/null; then
  unshare --map-root-user --root="$root" /oncewire demo >&2
else
  echo "musl.sh: no namespaces here, so the demo runs in the system's root" >&2
  "$program" demo >&2
fi

"$program" man "$out/share/man/man1" >/dev/null
gzip -9nf "$out"/share/man/man1/*.1
completions() { mkdir -p "$(dirname "$out/share/$2")"; "$program" completions "$1" > "$out/share/$2"; }
completions bash bash-completion/completions/oncewire
completions zsh zsh/site-functions/_oncewire
completions fish fish/vendor_completions.d/oncewire.fish
echo "$(stat -c %s "$program") bytes" >&2
echo "$program"
