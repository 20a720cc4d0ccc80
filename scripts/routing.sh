#!/usr/bin/env bash
# Repeat the evaluation of redundancy-aware routing and fill the tables of docs/ROUTING.md. See usage() below.
set -euo pipefail

usage() {
    cat <<USAGE
Usage: routing.sh PROGRAM DATA OUT [SECTION,...]

PROGRAM is the oncewire program; DATA has topologies/ with maps in our JSON form.
Sections: seattle, ingresses, maps, load, sweep, crowd. Without any, all. What an
earlier run left in OUT is used for the others. The flash crowd (crowd) is run by
an example, which needs cargo.

What it writes:
  OUT/*.json                  documents of the program
  docs/figures/routing-*.csv  results
  docs/ROUTING.md, docs/PROFILES.md
                              the tables between their markers
USAGE
}

if [[ ${1:-} == -h || ${1:-} == --help ]]; then usage; exit 0; fi
if (( $# < 3 || $# > 4 )); then usage >&2; exit 2; fi
program=$(realpath -- "$1")
maps=$(realpath -- "$2")/topologies
mkdir -p -- "$3"
out=$(realpath -- "$3")
sections=,${4:-seattle,ingresses,maps,load,sweep,crowd},
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

# Name of the document, map, arguments.
route() {
    local name=$1 map=$2
    shift 2
    echo "$name" >&2
    "$program" route "$maps/$map.json" --json "$@" > "$out/$name.json.new" 2>/dev/null || return 1
    mv -- "$out/$name.json.new" "$out/$name.json"
}

att=rocketfuel-7018-ATT-pop

if [[ $sections == *,seattle,* ]]; then
    for inter in 0 25 50 75 100; do
        route "seattle-inter-$inter" $att --ingress Seattle --rho 50% --inter $inter%
    done
    for rho in 10 20 30 40 50; do
        route "seattle-rho-$rho" $att --ingress Seattle --rho $rho% --inter 100%
    done
fi
if [[ $sections == *,ingresses,* ]]; then
    route ingresses-att $att
fi
if [[ $sections == *,maps,* ]]; then
    for map in "$maps"/*-pop.json "$maps"/sndlib-*.json "$maps"/topozoo-*.json; do
        map=$(basename -- "$map" .json)
        route "map-$map" "$map"
    done
fi
if [[ $sections == *,load,* ]]; then
    for rho in 20 50; do
        for inter in 50 100; do
            for slices in 64 8 4 2; do
                route "load-$rho-$inter-$slices" $att --objective load \
                    --capacity 2.5Gbit,10Gbit --rho $rho% --inter $inter% --slices $slices
            done
        done
    done
fi
if [[ $sections == *,sweep,* ]]; then
    for cost in latency hops; do
        for endpoints in 0 10 20 30 40; do
            (( endpoints )) && few=(--endpoints $endpoints) || few=()
            route "sweep-$cost-$endpoints" $att --ingress Seattle --cost $cost "${few[@]}" ||
                rm -f -- "$out/sweep-$cost-$endpoints.json" "$out/sweep-$cost-$endpoints.json.new"
        done
    done
fi
if [[ $sections == *,crowd,* ]]; then
    echo crowd >&2
    (cd -- "$root" && cargo run --release --locked -q -p oncewire-plan --example flash-crowd -- \
        "$maps/$att.json" Chicago) > "$out/crowd.txt.new"
    mv -- "$out/crowd.txt.new" "$out/crowd.txt"
fi
python3 "$root/scripts/routing-tables.py" "$out" "$root/docs/ROUTING.md" "$root/docs/figures"
