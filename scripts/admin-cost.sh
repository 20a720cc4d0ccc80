#!/bin/bash
# What metrics, history, the page and `oncewire top` cost a process, in CPU time, while it carries nothing: each does its work once a second or
# once a scrape, whatever is carried.
#
#   scripts/admin-cost.sh target/release/oncewire [SECONDS]
#
# Needs curl and script (util-linux). Prints milliseconds of CPU time per minute; 600 are 1 % of a core. Counts CPU time only, so other load
# on the machine changes it little.
set -euo pipefail
program=$(realpath "$1")
seconds=${2:-60}
dir=$(mktemp -d)
pids=()
stop() {
    kill "${pids[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$dir"
}
trap stop EXIT
cd "$dir"
unset XDG_RUNTIME_DIR

"$program" keygen a.key >a.pub
"$program" keygen b.key >b.pub
# CPU time of all threads of a process so far, in milliseconds.
cpu() { cat "/proc/$1"/task/*/schedstat | awk '{sum += $1} END {printf "%.3f", sum / 1e6}'; }
declare -A pid before
names=(nothing metrics history page)
# One server each, with these options.
start() {
    local name=$1 log=$1.log
    shift
    : >"$log"
    "$program" serve --key b.key --peer "$(cat a.pub)" --listen 127.0.0.1:0 --status "$name.sock" --memory 64M "$@" 2>"$log" &
    pid[$name]=$!
    pids+=($!)
    until grep -q ' listening ' "$log"; do sleep 0.05; done
    local at
    at=$(sed -n 's/.* listening .*address=\([^ ]*\) .*/\1/p' "$log" | head -1)
    "$program" connect "$at" --key a.key --peer "$(cat b.pub)" -L "0:localhost:1" --status "$name-client.sock" --memory 64M 2>"$name-client.log" &
    pids+=($!)
    until grep -q 'session established' "$log"; do sleep 0.05; done
}
admin() { sed -n 's/.*over HTTP address=//p' "$1.log"; }
start nothing
start metrics --admin 0
start history --history history
start page --admin 0 --history page-history
script -qec "stty cols 80 rows 24; exec '$program' top --socket nothing-client.sock" /dev/null </dev/null >/dev/null 2>&1 &
pids+=($!)
top=
until [ -n "$top" ]; do
    sleep 0.2
    top=$(pgrep -n -f "^$program top --socket nothing-client.sock" || true)
done
pid[top]=$top
pids+=("$top")
names+=(top)
sleep 2

for name in "${names[@]}"; do before[$name]=$(cpu "${pid[$name]}"); done
begin=$(date +%s.%N)
for ((second = 0; second < seconds; second++)); do
    curl -sf -o update.json "http://$(admin page)/update?price=0.09%2FGB"
    if ((second % 15 == 0)); then curl -sf -o metrics.txt "http://$(admin metrics)/metrics"; fi
    sleep 0.98
done
end=$(date +%s.%N)
for name in "${names[@]}"; do
    awk -v name="$name" -v from="${before[$name]}" -v to="$(cpu "${pid[$name]}")" -v time="$(echo "$end - $begin" | bc)" \
        'BEGIN {printf "%-8s %6.1f ms a minute\n", name, (to - from) * 60 / time}'
done
