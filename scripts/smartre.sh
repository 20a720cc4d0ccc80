#!/usr/bin/env bash
# Repeat SmartRE's evaluation and bring docs/SMARTRE.md up to date. See usage() below, or run with --help.
set -euo pipefail

usage() {
    cat <<USAGE
Usage: smartre.sh DATA OUT [SECTION,...]

Run the experiments of docs/SMARTRE.md, draw its pictures into docs/figures and
fill its tables. Sections are those of research/smartre; without
any, all. What an earlier run left in OUT is used for the others.

DATA must hold
  topologies/     maps in our JSON form
  day/day.pcap    the arranged day; or, if that is not there,
  content/        what it is made of: files, directories, tar archives

What it writes:
  OUT/*.tsv                      results
  docs/figures/smartre-*.svg     pictures
  docs/SMARTRE.md                the tables between its markers

Environment:
  SEED        of drift, hashes and changes (default: 1)
USAGE
}

if [[ ${1:-} == -h || ${1:-} == --help ]]; then usage; exit 0; fi
if (( $# < 2 || $# > 3 )); then usage >&2; exit 2; fi
data=$(realpath -- "$1")
mkdir -p -- "$2"
out=$(realpath -- "$2")
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cd -- "$root"

day=$data/day/day.pcap
if [[ ! -e $day ]]; then
    day=$out/day.pcap
    [[ -e $day ]] || cargo run --release -p oncewire-research-day -- --out "$day" --hours 24 --clients 200 \
        --servers 12 --megabytes 300 --seed 1 "$data"/content/*
fi
arguments=("$data/topologies" "$out" --seed "${SEED:-1}" --capture "$day")
[[ -z ${3:-} ]] || arguments+=(--only "$3")
cargo run --release -p oncewire-research-smartre -- "${arguments[@]}"
python3 scripts/smartre-figures.py "$out" docs/SMARTRE.md docs/figures
