#!/usr/bin/env bash
# Runs the portable kernels, and the codec's varints, frames, symbols and ranges, in Miri, which finds undefined
# behavior. Property tests run two cases each: Miri is slow.
#
#   scripts/miri.sh [SECONDS]   # time limit for each of the two crates (150)
#
# Needs a nightly toolchain with miri and rust-src. Exit status: 1 if Miri finds undefined behavior; a
# crate that takes longer than the limit, or that Miri cannot build or run, is reported as skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
limit="${1:-150}"
export MIRIFLAGS="-Zmiri-disable-isolation" ONCEWIRE_KERNELS=portable PROPTEST_CASES=2

output="$(mktemp)"
trap 'rm -f "$output"' EXIT

check() { # CRATE FILTERS...
  local crate=$1 code=0
  shift
  timeout --kill-after=10 "$limit" cargo +"${MIRI_TOOLCHAIN:-nightly}" miri test --locked -p "$crate" --lib -- "$@" \
    2>&1 | tee "$output" || code=$?
  case $code in
    0) echo "passed: Miri: $crate" ;;
    124 | 137) echo "skipped: Miri: $crate takes longer than $limit s" ;;
    *)
      if grep -q 'Undefined Behavior' "$output"; then exit 1; fi
      echo "skipped: Miri: it cannot run $crate here: $(grep -m 1 '^error' "$output" || echo "status $code")"
      ;;
  esac
}

# Miri has no system calls for the mapped pages, and these loops over all lengths or all bytes take minutes in it.
slow=(pages:: compare:: search:: rolling:: sample_hash:: every_byte_and_the_key_count index_bits_are_spread
  every_level_finds_the_same_pairs runs_and_slopes_have_markers a_run_has_one_marker every_level_and_batch_equals
  the_polynomial_is_irreducible what_is_far_back_is_found)
check oncewire-kernels "${slow[@]/#/--skip=}"
# Packs need the C code of zstd, which Miri cannot run.
check oncewire-codec format:: entropy::symbols:: ranges:: --skip=pack:: --skip=no_frequency_ever_falls_to_zero --skip=a_window_with_many_holes
