#!/usr/bin/env bash
# Builds the fuzz crate and runs each target for a short time from its corpus. Ends with a list of the targets.
#
#   scripts/fuzz-smoke.sh [SECONDS [LIMIT]]   # seconds for each target (20), limit for everything in seconds (360)
#
# The seed is the same in every run, so that a run can be repeated: what a longer search finds is found by hand, with
# `cargo +nightly fuzz run TARGET` or FUZZ_SEED=0 (a seed from the clock).
#
# Needs a nightly toolchain, and cargo-fuzz, which it installs if it is missing. Inputs that fail stay in the directory
# that it names. Exit status: 1 if a target fails or does not build; 0 if all pass or there is no nightly toolchain.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${1:-20}"
limit="${2:-360}"

if ! cargo +nightly --version >/dev/null 2>&1; then
  echo "skipped: fuzzing: there is no nightly toolchain"
  exit 0
fi
left() { echo $((limit - SECONDS)); }
run() { timeout --kill-after=10 "$(($(left) > 1 ? $(left) : 1))" "$@"; }

if ! command -v cargo-fuzz >/dev/null; then
  if ! run cargo install cargo-fuzz --locked --quiet; then
    echo "skipped: fuzzing: cargo-fuzz cannot be installed"
    exit 0
  fi
fi
mapfile -t targets < <(sed -n '/^\[\[bin\]\]/,/^$/s/^name = "\(.*\)"/\1/p' fuzz/Cargo.toml)
# The C code of zstd is built with the sanitizer, too. GCC's takes a constant table of its slowest levels for a
# variable that is out of scope.
export CFLAGS="${CFLAGS:-} -fno-sanitize-address-use-after-scope"
status=0
results=()
if run cargo +nightly fuzz build; then
  echo "built in $SECONDS s"
else
  code=$?
  if [ "$code" -ge 124 ]; then
    echo "skipped: fuzzing: the build takes longer than $limit s"
    exit 0
  fi
  exit 1
fi
host="$(rustc -vV | sed -n 's/^host: //p')"
programs="${CARGO_TARGET_DIR:-fuzz/target}/$host/release"

found="$(mktemp -d)"
# Two at a time: each target is one process with one thread.
check() { # TARGET
  mkdir -p "$found/$1"
  "$programs/$1" "$found/$1" "fuzz/corpus/$1" -artifact_prefix="$found/$1-" -max_len=4096 -max_total_time="$seconds" \
    -seed="${FUZZ_SEED:-1}" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 > "$found/$1.log" 2>&1
}
for ((at = 0; at < ${#targets[@]}; at += 2)); do
  if [ "$(left)" -lt "$((seconds + 5))" ]; then
    for target in "${targets[@]:at}"; do
      results+=("skipped: fuzz target $target: $limit s are over")
    done
    break
  fi
  pair=("${targets[@]:at:2}")
  pids=()
  for target in "${pair[@]}"; do
    check "$target" &
    pids+=($!)
  done
  for i in "${!pair[@]}"; do
    target="${pair[i]}"
    if wait "${pids[i]}"; then
      runs="$(sed -n 's/^stat::number_of_executed_units: *//p' "$found/$target.log")"
      results+=("passed: fuzz target $target: ${runs:-?} inputs")
    else
      status=1
      results+=("FAILED: fuzz target $target")
      tail -n 40 "$found/$target.log"
    fi
  done
done

printf '%s\n' "${results[@]}"
echo "fuzzing took $SECONDS s"
if [ "$status" = 0 ]; then
  rm -rf "$found"
else
  echo "inputs and logs are in $found"
fi
exit "$status"
