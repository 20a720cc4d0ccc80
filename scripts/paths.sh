#!/usr/bin/env bash
# Measures the tunnel over emulated paths, with TCP and QUIC, beside a direct connection. Needs root, python3 and curl.
#   scripts/paths.sh [MB] [CONGESTION]      CONGESTION: cubic (default), reno or bbr
# Prints a line per path and transport: seconds for new random bytes, and for the same bytes again.
set -euo pipefail
cd "$(dirname "$0")/.."
mb=${1:-16} congestion=${2:-cubic}
target=${CARGO_TARGET_DIR:-target}/release
cargo build --release --locked -q -p oncewire -p oncewire-testkit
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
head -c "${mb}M" /dev/urandom >"$work/direct"
for way in tcp quic; do head -c "${mb}M" /dev/urandom >"$work/$way"; done
"$target/oncewire" keygen "$work/a.key" >"$work/a.pub"
"$target/oncewire" keygen "$work/b.key" >"$work/b.pub"
export work target
cat >"$work/script" <<'SCRIPT'
set -eu
started=""
stop() { for pid in $started; do kill "$pid" 2>/dev/null || true; done; wait; }
trap stop EXIT
ip netns exec "$NS_B" python3 -m http.server 8000 --bind "$ADDR_B" --directory "$work" >/dev/null 2>&1 & started="$started $!"
for way in tcp quic; do
    port=$([ $way = tcp ] && echo 7001 || echo 7002)
    ip netns exec "$NS_B" "$target/oncewire" serve --key "$work/b.key" --peer "$(cat "$work/a.pub")" --listen "$ADDR_B:$port" \
        --allow "$ADDR_B/32:8000" --transport $way --status "$work/serve-$way.sock" --log warn & started="$started $!"
done
sleep 1
for way in tcp quic; do
    port=$([ $way = tcp ] && echo 7001 || echo 7002)
    ip netns exec "$NS_A" "$target/oncewire" connect "$ADDR_B:$port" --key "$work/a.key" --peer "$(cat "$work/b.pub")" \
        -L "$((port + 1000)):$ADDR_B:8000" --transport $way --status "$work/connect-$way.sock" --log warn & started="$started $!"
done
sleep 3
fetch() { ip netns exec "$NS_A" curl -sS --max-time 280 -o "$work/got" -w '%{time_total}' "$1" || true; cmp -s "$work/got" "$work/$2" || printf ' WRONG'; }
printf '  %-14s %8s s\n' direct "$(fetch "http://$ADDR_B:8000/direct" direct)"
for way in tcp quic; do
    port=$([ $way = tcp ] && echo 8001 || echo 8002)
    first=$(fetch "http://127.0.0.1:$port/$way" $way)
    again=$(fetch "http://127.0.0.1:$port/$way" $way)
    printf '  %-14s %8s s, again %8s s\n' "oncewire $way" "$first" "$again"
done
SCRIPT
run() {
    echo "$1: $mb MB, $congestion"
    shift
    "$target/oncewire-path-emulator" "$@" --congestion "$congestion" --script "$work/script" 2>"$work/stats" || { cat "$work/stats"; exit 1; }
}
run "200 ms round trip, 1 Gbit/s" --delay-ms 100 --rate-mbit 1000
run "50 ms, 100 Mbit/s" --delay-ms 25 --rate-mbit 100
run "50 ms, 100 Mbit/s, 1 % loss" --delay-ms 25 --rate-mbit 100 --loss 0.01
run "50 ms, 100 Mbit/s, 0.1 % loss" --delay-ms 25 --rate-mbit 100 --loss 0.001
