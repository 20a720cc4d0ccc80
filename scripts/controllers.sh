#!/usr/bin/env bash
# What packets and plans notice of controllers that are killed: three members of etcd, two controllers and three nodes in
# a row in network namespaces, with pings every 10 ms from A to C. Run as root; needs ip, ping and etcd, and a program that
# is built with `--features etcd`.
#
#   scripts/controllers.sh ONCEWIRE
set -euo pipefail
program="$(realpath "$1")"
work="$(mktemp -d)"
prefix="ct$$"
started=()
clean() {
  for pid in "${started[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  sleep 1
  for name in A B C H; do ip netns del "$prefix$name" 2>/dev/null || true; done
  rm -rf "$work"
}
trap clean EXIT
cd "$work"

ip netns add "${prefix}H"
ip -n "${prefix}H" link set lo up
ip -n "${prefix}H" link add hub type bridge
ip -n "${prefix}H" link set hub up
ip -n "${prefix}H" address add 10.99.0.100/24 dev hub
nodes=""
number=0
for name in A B C; do
  number=$((number + 1))
  ip netns add "$prefix$name"
  ip -n "$prefix$name" link set lo up
  ip link add "v$number" netns "$prefix$name" type veth peer name "h$number" netns "${prefix}H"
  ip -n "${prefix}H" link set "h$number" master hub up
  ip -n "$prefix$name" link set "v$number" up
  ip -n "$prefix$name" address add "10.99.0.$number/24" dev "v$number"
  nodes+="{\"id\":\"$name\",\"population\":1,\"key\":\"$("$program" keygen $name.key)\",\"address\":\"10.99.0.$number:7081\",\"prefixes\":[\"10.$number.0.0/16\"]},"
done
cat > net.json <<EOT
{"name":"row","nodes":[${nodes%,}],"links":[{"a":"A","b":"B"},{"a":"B","b":"C"}]}
EOT

members="m1=http://127.0.0.1:2391,m2=http://127.0.0.1:2392,m3=http://127.0.0.1:2393"
for member in 1 2 3; do
  ip netns exec "${prefix}H" etcd --name m$member --initial-cluster "$members" --data-dir "etcd$member" \
    --listen-client-urls "http://127.0.0.1:238$member" --advertise-client-urls "http://127.0.0.1:238$member" \
    --listen-peer-urls "http://127.0.0.1:239$member" --initial-advertise-peer-urls "http://127.0.0.1:239$member" \
    > "etcd$member.log" 2>&1 &
  started+=($!)
  disown
done
controllers=""
pids=()
lead_of() {
  ip netns exec "${prefix}H" "$program" controller --key "c$1.key" --topology net.json --listen "10.99.0.100:708$1" \
    --store etcd://127.0.0.1:2381,127.0.0.1:2382,127.0.0.1:2383/row --socket "c$1.sock" 2>> "c$1.log" &
  pids[$1]=$!
  started+=($!)
  disown
}
for number in 3 4; do
  controllers+="$("$program" keygen c$number.key)@10.99.0.100:708$number,"
  lead_of $number
done
number=0
for name in A B C; do
  number=$((number + 1))
  ip netns exec "$prefix$name" "$program" node --key $name.key --topology net.json --name $name --listen 7081 \
    --controller "${controllers%,}" --plan-file $name.plan --memory 30M --device "t$number" \
    --address "10.$number.0.1/32" --status $name.sock 2> $name.log &
  started+=($!)
  disown
done
until grep -q "is carried out by 3 of 3 nodes" c3.log c4.log; do sleep 0.2; done

# The one that leads, and the other.
now=3 other=4
if grep -q "carried out" c4.log; then now=4 other=3; fi
echo "controller $now leads; the other says: $("$program" controller status --socket c$other.sock 2>&1 || true)"
ip netns exec "${prefix}A" ping -i 0.01 -c 2500 -W 1 -q 10.3.0.1 > pings &
pings=$!
sleep 1
for round in 1 2; do
  joined=$(grep -c "has joined" c$other.log || true)
  leads=$(grep -c "this controller leads" c$other.log || true)
  begun=$(date +%s.%N)
  kill -KILL "${pids[$now]}"
  until [ "$(grep -c 'this controller leads' c$other.log)" -gt "$leads" ]; do sleep 0.02; done
  after=$(date +%s.%N)
  until [ "$(grep -c 'has joined' c$other.log)" -ge $((joined + 3)) ]; do sleep 0.02; done
  awk -v a="$begun" -v b="$after" -v c="$(date +%s.%N)" -v n="$now" \
    'BEGIN { printf "controller %d is killed: another leads after %.1f s, and has all nodes after %.1f s\n", n, b - a, c - a }'
  lead_of $now
  spare=$now now=$other other=$spare
done
"$program" controller plan --now --socket c$now.sock
until grep -q "plan 2 is carried out by 3 of 3 nodes" c$now.log; do sleep 0.2; done
echo "plan 2 is carried out by all nodes"
wait $pings
echo "from A to C: $(tail -n 2 pings | head -n 1)"
