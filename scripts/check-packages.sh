#!/usr/bin/env bash
# Checks that the package of each crate is complete: it contains its licenses and README, no source uses a file outside
# of it at compile time, and no dependency is a path without a version. Builds nothing; takes seconds.
#
#   scripts/check-packages.sh             # every published crate
#   scripts/check-packages.sh --compile   # also runs `cargo check` on all packages in a separate directory
set -euo pipefail
cd "$(dirname "$0")/.."

compile=false
[ "${1:-}" = --compile ] && compile=true
out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT
failed=0
complain() { echo "check-packages: $*" >&2; failed=1; }

crates=()
for manifest in crates/*/Cargo.toml; do
  grep -q '^publish = false' "$manifest" || crates+=("$(dirname "$manifest")")
done

for dir in "${crates[@]}"; do
  name="$(sed -n 's/^name = "\(.*\)"/\1/p' "$dir/Cargo.toml" | head -1)"
  cargo package -p "$name" --no-verify --list --allow-dirty --offline > "$out/list" 2> "$out/log" || {
    cat "$out/log" >&2
    complain "$name cannot be packaged"
    continue
  }
  for file in LICENSE-MIT LICENSE-APACHE README.md Cargo.toml; do
    grep -qx "$file" "$out/list" || complain "$name: its package has no $file"
  done
  for file in LICENSE-MIT LICENSE-APACHE; do
    cmp -s "$file" "$dir/$file" || complain "$name: $file differs from the one of the workspace"
  done
  for key in description license readme keywords categories repository; do
    grep -q "^$key[ .]" "$dir/Cargo.toml" || complain "$name: Cargo.toml has no $key"
  done
  # Every file included at compile time must be in the package.
  while IFS= read -r source; do
    while IFS= read -r target; do
      path="$(realpath -m -s --relative-to="$dir" "$dir/$(dirname "$source")/$target")"
      grep -qxF -- "$path" "$out/list" || complain "$name: $source uses $target, which is not in its package"
    done < <(grep -oE '(include_(bytes|str)!\(|include!\(|#\[path *= *)"[^"]*"' "$dir/$source" | sed 's/^[^"]*"\(.*\)"$/\1/')
  done < <(grep '\.rs$' "$out/list")
  # Path dependencies need a version. Cargo drops test dependencies without one from the package.
  without="$(awk '/^\[/ { dev = /dev-dependencies/ } !dev && /\{.*path *= *"/ && !/version *=/' "$dir/Cargo.toml")"
  [ -z "$without" ] || complain "$name: a path without a version: $without"
done
without="$(awk '/^\[/ { on = /^\[workspace.dependencies\]/ } on && /\{.*path *= *"/ && !/version *=/ && !/crates\/(second|testkit)"/' Cargo.toml)"
[ -z "$without" ] || complain "the workspace: a path without a version: $without"

if $compile; then
  for dir in "${crates[@]}"; do
    name="$(sed -n 's/^name = "\(.*\)"/\1/p' "$dir/Cargo.toml" | head -1)"
    mkdir -p "$out/alone/$name"
    (cd "$dir" && cargo package -p "$name" --no-verify --list --allow-dirty --offline | grep -v '^Cargo\.\(lock\|toml\.orig\)$\|^\.cargo_vcs_info\.json$' |
      tar -ch -T - -f -) | tar -x -C "$out/alone/$name"
  done
  # The workspace's table of versions and lints, with the paths of the packages, and without those for tests.
  sed -e '/^members = \[/,/^\]/d' -e '/^default-members/d' -e '/^exclude/d' -e '/crates\/second"/d' -e '/testkit/d' -e 's#path = "crates/\([a-z]*\)"#path = "oncewire-\1"#' \
    -e 's#^\[workspace\]#[workspace]\nmembers = ["*"]#' Cargo.toml > "$out/alone/Cargo.toml"
  for manifest in "$out"/alone/*/Cargo.toml; do
    # Targets that are not in the package; cargo itself drops them from a published manifest.
    awk '/^\[/ { skip = /^\[\[(bench|example|test)\]\]/ || /dev-dependencies/ } !skip' "$manifest" > "$manifest.new" && mv "$manifest.new" "$manifest"
  done
  cp Cargo.lock "$out/alone/"
  # Reuses dependencies that were checked before.
  target="${CARGO_TARGET_DIR:-$PWD/target}"
  (cd "$out/alone" && CARGO_TARGET_DIR="$target" cargo check --workspace --offline) || complain "the packages do not compile on their own"
fi

[ "$failed" = 0 ] || exit 1
echo "check-packages: ${#crates[@]} complete crates"
