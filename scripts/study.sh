#!/usr/bin/env bash
# Repeat the measurements of docs/STUDY.md. See usage() below, or run with --help.
set -euo pipefail

usage() {
    cat <<USAGE
Usage: study.sh DATA OUT [STEP...]

Run \`oncewire study\` on four traces and draw the pictures of docs/STUDY.md.
STEP is any of http, release, public, day, score and figures; without one, all.

DATA must hold
  pcap/           the captures: the public ones as PROJECT__NAME, our own two
                  as selfcap__dev-http-mix.pcap and
                  selfcap__dev-release-sync.pcap
  day/day.pcap    the arranged day, and day/day.prefixes beside it
  django/*.tar    tars of Django releases, for score (fetch-corpora.sh)

What it writes:
  OUT/TRACE.json, OUT/TRACE.html, OUT/TRACE-csv/, OUT/TRACE.cost
  OUT/score-capture.txt, OUT/score-files.txt and their .json and .cost
  OUT/figures/study-*.svg

The arranged day is made by \`cargo run --release -p oncewire-research-day\`.

Environment:
  ONCEWIRE    the binary to run (default: oncewire)
USAGE
}

if [[ ${1:-} == -h || ${1:-} == --help ]]; then usage; exit 0; fi
if (( $# < 2 )); then usage >&2; exit 2; fi
data=$(realpath -- "$1")
mkdir -p -- "$2"
out=$(realpath -- "$2")
shift 2
steps=("$@")
(( ${#steps[@]} )) || steps=(http release public day score figures)
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
oncewire=${ONCEWIRE:-oncewire}

# cost FILE COMMAND...: run a command, and write its wall time, CPU time and peak resident memory into FILE.
cost() {
    python3 - "$@" <<'PY'
import resource, subprocess, sys, time
start = time.monotonic()
status = subprocess.call(sys.argv[2:])
wall = time.monotonic() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as file:
    print(f"wall {wall:.1f} s, CPU {used.ru_utime + used.ru_stime:.1f} s, peak memory {used.ru_maxrss / 1000:.0f} MB", file=file)
sys.exit(status)
PY
}

# study TRACE ARGUMENTS...
study() {
    local trace=$1
    shift
    cost "$out/$trace.cost" "$oncewire" study "$@" --all --figures all --json \
        --csv "$out/$trace-csv" --report "$out/$trace.html" >"$out/$trace.json"
    printf '%s: %s\n' "$trace" "$(cat "$out/$trace.cost")" >&2
}

for step in "${steps[@]}"; do
    case $step in
    http) study http "$data/pcap/selfcap__dev-http-mix.pcap" --inside 10.77.0.1,10.78.0.1,fd77::1 ;;
    release) study release "$data/pcap/selfcap__dev-release-sync.pcap" --inside 10.77.0.1,10.78.0.1,fd77::1 ;;
    public)
        # Links, so that a directory holds what is studied. Left out besides our own: inputs of tcpdump's tests and of fuzzers. Many
        # were made to be wrong; one packet of theirs claims 4.09 GB, which would be 97 % of the bytes of all.
        rm -rf -- "$out/public"
        mkdir -p -- "$out/public"
        for file in "$data"/pcap/*; do
            case ${file##*/} in selfcap__* | deb-tcpdump__* | *fuzz*) ;; *) ln -s -- "$file" "$out/public/" ;; esac
        done
        study public "$out/public"
        ;;
    day) study day "$data/day/day.pcap" --inside 10.20.0.0/16,2001:db8:20::/48 --prefixes "$data/day/day.prefixes" ;;
    score)
        cost "$out/score-capture.cost" "$oncewire" study --score "$data/pcap/selfcap__dev-release-sync.pcap" \
            --distances 64,128,256,512 --repeats 3 --json --csv "$out/score-capture-csv" >"$out/score-capture.json"
        # Three benchmarks of 32 MB: random bytes twice, two releases of Django, documents of a system.
        rm -rf -- "$out/benchmarks"
        mkdir -p -- "$out/benchmarks"/{random,releases}
        python3 -c 'import random, sys; sys.stdout.buffer.write(random.Random(1).randbytes(16 << 20))' >"$out/benchmarks/random/1"
        cp -- "$out/benchmarks/random/1" "$out/benchmarks/random/2"
        head -c 16M -- "$data/django/django-5.0.tar" >"$out/benchmarks/releases/1"
        head -c 16M -- "$data/django/django-5.0.9.tar" >"$out/benchmarks/releases/2"
        tar -C /usr/share -cf - --sort=name doc | head -c 32M >"$out/benchmarks/documents" || true
        cost "$out/score-files.cost" "$oncewire" study --score "$out"/benchmarks/{random,releases,documents} \
            --distances 64,128,256,512 --buffers 1K,16K,256K --repeats 3 --json --csv "$out/score-files-csv" >"$out/score-files.json"
        ;;
    figures) python3 "$here/study-figures.py" "$out" "$out/figures" ;;
    *) usage >&2; exit 2 ;;
    esac
done
