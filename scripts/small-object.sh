#!/usr/bin/env bash
# Measures the IP bytes, in both directions, that a repeated 15 KB object takes over an emulated path of 10 ms and
# 100 Mbit/s. Needs root, python3 and curl.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}/release
cargo build --release --locked -q -p oncewire -p oncewire-testkit
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
head -c 15000 /dev/urandom >"$work/object"
"$target/oncewire" keygen "$work/a.key" >"$work/a.pub"
"$target/oncewire" keygen "$work/b.key" >"$work/b.pub"
export work target
cat >"$work/script" <<'SCRIPT'
set -eu
ip netns exec "$NS_B" python3 -m http.server 8000 --bind "$ADDR_B" --directory "$work" >/dev/null 2>&1 & origin=$!
ip netns exec "$NS_B" "$target/oncewire" serve --key "$work/b.key" --peer "$(cat "$work/a.pub")" --listen "$ADDR_B:7001" \
    --allow "$ADDR_B/32:8000" --status "$work/b.sock" --log warn & serve=$!
sleep 0.5
ip netns exec "$NS_A" "$target/oncewire" connect "$ADDR_B:7001" --key "$work/a.key" --peer "$(cat "$work/b.pub")" \
    -L "8001:$ADDR_B:8000" --status "$work/a.sock" --log warn & connect=$!
sleep 1
for _ in $(seq "$times"); do
    ip netns exec "$NS_A" curl -sS -o "$work/got" http://127.0.0.1:8001/object
    cmp "$work/got" "$work/object"
done
kill "$origin" "$serve" "$connect"
wait || true
SCRIPT
bytes() { # IP bytes of a number of downloads
    export times=$1
    "$target/oncewire-path-emulator" --delay-ms 5 --rate-mbit 100 --script "$work/script" 2>&1 |
        sed -n 's/.*"wire_bytes":\([0-9]*\).*/\1/p' | awk '{ sum += $1 } END { print sum }'
}
few=$(bytes 2) many=$(bytes 52)
echo "$(((many - few) / 50)) bytes of IP packets per repeat, both directions"
