#!/usr/bin/env bash
# How long packets are lost when a node on their way is killed: a ring A-B-C-D in network namespaces with a controller,
# and pings every 10 ms from A through B to C, and from A to D. Run as root; needs ip and ping.
#
#   scripts/dead-node.sh ONCEWIRE [OPTIONS OF NODES]
set -euo pipefail
program="$(realpath "$1")"
work="$(mktemp -d)"
prefix="dn$$"
started=()
clean() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
  sleep 1
  for name in A B C D H; do ip netns del "$prefix$name" 2>/dev/null || true; done
  rm -rf "$work"
}
trap clean EXIT
cd "$work"

ip netns add "${prefix}H"
ip -n "${prefix}H" link add hub type bridge
ip -n "${prefix}H" link set hub up
nodes=""
number=0
for name in A B C D; do
  number=$((number + 1))
  ip netns add "$prefix$name"
  ip -n "$prefix$name" link set lo up
  ip link add "v$number" netns "$prefix$name" type veth peer name "h$number" netns "${prefix}H"
  ip -n "${prefix}H" link set "h$number" master hub up
  ip -n "$prefix$name" link set "v$number" up
  ip -n "$prefix$name" address add "10.99.0.$number/24" dev "v$number"
  nodes+="{\"id\":\"$name\",\"population\":1,\"key\":\"$("$program" keygen $name.key)\",\"address\":\"10.99.0.$number:7081\",\"prefixes\":[\"10.$number.0.0/16\"]},"
done
controller="$("$program" keygen c.key)@10.99.0.4:7080"
cat > net.json <<EOF
{"name":"ring","nodes":[${nodes%,}],"links":[{"a":"A","b":"B"},{"a":"B","b":"C"},{"a":"C","b":"D","weight":1.5},{"a":"D","b":"A"}]}
EOF
# `ip netns exec` becomes the program.
ip netns exec "${prefix}D" "$program" controller --key c.key --topology net.json --store c.redb \
  --listen 10.99.0.4:7080 --socket c.sock 2> c.log &
started+=($!)
number=0
for name in A B C D; do
  number=$((number + 1))
  ip netns exec "$prefix$name" "$program" node --key $name.key --topology net.json --name $name --listen 7081 \
    --controller "$controller" --plan-file $name.plan --memory 30M --device "t$number" \
    --address "10.$number.0.1/32" "${@:2}" --status $name.sock 2> $name.log &
  started+=($!)
  [ $name = B ] && killed=$!
done
until grep -q "is carried out by 4 of 4 nodes" c.log; do sleep 0.2; done
sleep 5
ping() { ip netns exec "${prefix}A" ping -i 0.01 -c 700 -W 1 -q "$1" | tail -n 2 | head -n 1; }
ping 10.3.0.1 > through &
through=$!
ping 10.4.0.1 > beside &
beside=$!
sleep 2
echo "$(date -u +%T.%3N) B is killed"
kill -KILL "$killed"
wait $through $beside
sed -n 's/^[0-9-]*T\([0-9:.]*\)[0-9]\{3\}Z *[A-Z]* \(.*\)/\1 \2/p' c.log | tail -n 3
echo "from A through B to C: $(cat through)"
echo "from A to D: $(cat beside)"
