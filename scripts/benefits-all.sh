#!/bin/sh
# All figures of docs/BENEFITS.md, in one run: tables, then pictures. Three quarters of an hour on an idle machine with two cores.
#
#   scripts/benefits-all.sh ONCEWIRE EMULATOR DIR [PART...]
#
# EMULATOR is oncewire-path-emulator; DIR keeps what clients fetch (filled if it is empty). Parts, default all: clients (4 min),
# haproxy (2), transactions (11), transfers (12), pages (2), packages (3). Needs root and what scripts/https.py,
# scripts/https-times.py and scripts/benefits.py name. A part that fails stops the run; those before it are written.
set -eu
[ $# -ge 3 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
oncewire=$1 emulator=$2 data=$3
shift 3
[ $# -gt 0 ] || set -- clients haproxy transactions transfers pages packages
here=$(dirname "$0")
export FIGURES="$here/../docs/figures"
[ -e "$data/npm" ] || "$here/https.py" "$oncewire" "$data" >/dev/null
echo "load: $(cut -d' ' -f1-3 /proc/loadavg); anything above 1 spoils the seconds"
for part; do
    begun=$(date +%s)
    case $part in
        clients) ROUNDS=5 "$emulator" --delay-ms 10 --rate-mbit 100 -- "$here/https-times.py" "$oncewire" "$data" ;;
        haproxy) ROUNDS=3 COUNT=300 "$here/https-times.py" "$oncewire" --haproxy ;;
        pages | packages) ROUNDS=5 "$here/benefits.py" "$oncewire" "$emulator" "$data" "$part" ;;
        *) ROUNDS=3 "$here/benefits.py" "$oncewire" "$emulator" "$data" "$part" ;;
    esac
    echo "$part took $(($(date +%s) - begun)) s"
done
"$here/figure-tables.py"
"$here/benefits-figures.py"
