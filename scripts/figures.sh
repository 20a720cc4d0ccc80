#!/usr/bin/env bash
# Measures the figures of docs/PERFORMANCE.md. Needs the corpora of scripts/fetch-corpora.sh and an idle machine.
# Usage: scripts/figures.sh CORPORA [OUT]     writes OUT/TABLE/figures.csv for each table [default: figures]
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
cd "$(dirname "$0")/.."
corpora=$(realpath "$1")
out=$(realpath -m "${2:-figures}")
mkdir -p "$out"
cargo build --release --locked
oncewire=target/release/oncewire

mapfile -t django < "$corpora/django.list"
mapfile -t typescript < "$corpora/typescript.list"
# Four of the eight releases, 235 MB.
four=()
for version in 4.0.10 4.1.13 4.2 4.2.16; do four+=("$corpora/django/django-$version.tar"); done
random=("$corpora/random/random.bin")

run() { # NAME ARGUMENTS...
  local name=$1
  shift
  echo "== $name" >&2
  "$oncewire" bench --csv "$out/$name" "$@" > "$out/$name.txt"
}

run django-64K --entropy none,lz4,coded-1,coded-3 "${django[@]}"
run django-64K-p64 --entropy none --periods 64 "${django[@]}"
run django-16K --block 16K --entropy none,coded-3 "${django[@]}"
run django-packets --packets --entropy none,lz4,coded-3 "${django[@]}"
run typescript-64K --entropy none,lz4,coded-1,coded-3 "${typescript[@]}"
run typescript-64K-p64 --entropy none --periods 64 "${typescript[@]}"
run typescript-16K --block 16K --entropy none,coded-3 "${typescript[@]}"
run typescript-packets --packets --entropy none,lz4,coded-3 "${typescript[@]}"
run four-repeat --passes 2 --entropy none,coded-3 "${four[@]}"
run random-repeat --passes 2 --entropy none,coded-3 --runs 7 "${random[@]}"
