#!/usr/bin/env bash
# Installs, uses, upgrades, removes and purges a Debian package on a machine of its own: a container with systemd, made
# in DIRECTORY by debootstrap the first time. Needs root, debootstrap and systemd-container.
#
#   scripts/test-package.sh PACKAGE NEWER-PACKAGE DIRECTORY
#   scripts/test-package.sh "$(scripts/package-deb.sh out)" "$(VERSION=0.1.0+1 scripts/package-deb.sh out)" /var/tmp/root
set -euo pipefail
old="$(realpath "$1")" new="$(realpath "$2")" base="$3"
[ -e "$base/etc/debian_version" ] ||
  debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,adduser bookworm "$base" \
    ${MIRROR:+"$MIRROR"} >&2

root="$base.try"
rm -rf "$root"
trap 'rm -rf "$root"' EXIT
cp -a --reflink=auto "$base" "$root"
cp "$old" "$root/root/old.deb"
cp "$new" "$root/root/new.deb"

cat > "$root/root/try.sh" <<'TRY'
set -eux -o pipefail
cd /root
trap 'journalctl --no-pager -o cat -n 60 -u "oncewire-*"; ls -l slow.*' ERR
export DEBIAN_FRONTEND=noninteractive
# Everything on the disk, but for logs and what packages are known.
files() { find / -xdev \( -path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /root -o -path /var/log \
  -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/lib/systemd -o -path /var/lib/private \
  -o -path /dev \) -prune -o -print | grep -v '^/etc/\(group\|passwd\|shadow\|gshadow\|subuid\|subgid\|machine-id\|\.pwd\.lock\)-\?$' | sort; }
files > before

# An origin that sends the same bytes to each who connects.
cat > /etc/systemd/system/origin.socket <<'UNIT'
[Socket]
ListenStream=127.0.0.1:8000
Accept=yes
UNIT
cat > /etc/systemd/system/origin@.service <<'UNIT'
[Service]
ExecStart=/bin/cat /usr/bin/perl
StandardInput=socket
StandardOutput=socket
UNIT
# One that sends their end when it may.
cat > /root/slow.sh <<'SLOW'
for i in $(seq 0 74); do
  [ $i -lt 30 ] || until [ -e /root/finish ]; do sleep .2; done
  dd if=/usr/bin/perl bs=65536 skip=$i count=1 status=none
  [ -e /root/finish ] || sleep .2
done
SLOW
sed s/8000/8001/ /etc/systemd/system/origin.socket > /etc/systemd/system/slow.socket
sed 's,/bin/cat /usr/bin/perl,/bin/bash /root/slow.sh,' /etc/systemd/system/origin@.service > /etc/systemd/system/slow@.service
systemctl daemon-reload
systemctl start origin.socket slow.socket
slow() { timeout 280 bash -c 'cat < /dev/tcp/127.0.0.1/9001' > "slow.$1"; }
fetch() { timeout 60 bash -c 'cat < /dev/tcp/127.0.0.1/9000' > got && cmp got /usr/bin/perl; }

# As docs/OPERATING.md says.
apt-get install -y --no-install-recommends ./old.deb
test "$(stat -c '%U %a' /etc/oncewire)" = 'oncewire 700'
as() { runuser -u oncewire -- "$@"; }
server="$(as oncewire keygen /etc/oncewire/serve.key | grep -o 'ow1[A-Za-z0-9_-]*' | head -1)"
client="$(as oncewire keygen /etc/oncewire/connect.key | grep -o 'ow1[A-Za-z0-9_-]*' | head -1)"
as tee /etc/oncewire/serve.toml <<CONF
key = "/etc/oncewire/serve.key"
peer = ["$client branch"]
listen = ["*:7077"]
allow = ["127.0.0.1:8000", "127.0.0.1:8001"]
status = "/run/oncewire-serve/status.sock"
history = "/var/lib/oncewire-serve/history"
CONF
as tee /etc/oncewire/connect.toml <<CONF
key = "/etc/oncewire/connect.key"
server = "127.0.0.1:7077"
peer = ["$server"]
forward = ["9000:127.0.0.1:8000", "9001:127.0.0.1:8001"]
status = "/run/oncewire-connect/status.sock"
CONF
systemctl enable --now oncewire-serve.socket oncewire-serve oncewire-connect
fetch
fetch
as oncewire status --socket /run/oncewire-serve/status.sock
test -s /var/lib/oncewire-serve/history

# An upgrade and restarts of both ends: nobody is refused, and every connection ends whole.
touch knocking
for port in 7077 9000; do
  (set +x; while [ -e knocking ]; do (: < /dev/tcp/127.0.0.1/$port) 2>/dev/null || echo refused $port; sleep .01; done) >> knocks &
done
first="$(systemctl show -p MainPID --value oncewire-serve)"
slow 1 & slow1=$!
sleep .5
apt-get install -y --no-install-recommends ./new.deb
systemctl is-active oncewire-serve oncewire-connect
test "$(systemctl show -p MainPID --value oncewire-serve)" != "$first"
fetch
slow 2 & slow2=$!
sleep .5
systemctl restart oncewire-serve
fetch
slow 3 & slow3=$!
sleep .5
systemctl restart oncewire-connect
fetch
# The first has been open over an upgrade and two restarts.
kill -0 $slow1
touch finish
wait $slow1 $slow2 $slow3
rm knocking
wait
test ! -s knocks
for n in 1 2 3; do cmp slow.$n /usr/bin/perl; done

apt-get remove -y oncewire
test ! -e /usr/bin/oncewire
if grep -lx oncewire /proc/[0-9]*/comm; then exit 1; fi
test -s /etc/oncewire/serve.key
test -s /var/lib/oncewire-serve/history
apt-get install -y --no-install-recommends ./new.deb
test "$(systemctl is-active oncewire-serve || true)" = inactive
systemctl start oncewire-serve oncewire-connect
fetch
test "$(systemctl is-enabled oncewire-serve.socket || true)" = disabled
apt-get purge -y oncewire 2>&1 | tee purge
grep -q 'are left in /etc/oncewire' purge
test ! -e /var/lib/oncewire-serve
rm -r /etc/oncewire

# Nobody used it: nothing stays.
apt-get install -y --no-install-recommends ./old.deb
apt-get purge -y oncewire
rm /etc/systemd/system/origin.socket /etc/systemd/system/origin@.service /etc/systemd/system/slow.socket /etc/systemd/system/slow@.service
files > after
diff before after
echo PASSED > passed
TRY

cat > "$root/etc/systemd/system/try.service" <<'UNIT'
[Unit]
After=multi-user.target
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
Environment=HOME=/root
ExecStart=/bin/bash /root/try.sh
StandardOutput=file:/root/try.log
StandardError=inherit
TimeoutStartSec=600
[Install]
WantedBy=graphical.target
UNIT
mkdir -p "$root/etc/systemd/system/graphical.target.wants"
ln -s /etc/systemd/system/try.service "$root/etc/systemd/system/graphical.target.wants/try.service"

# A network of its own: loopback is enough. Without a terminal, whose answers a container would wait for.
timeout 400 systemd-nspawn --quiet --directory="$root" --boot --register=no --keep-unit --private-network \
  --machine=oncewire-try --console=pipe < /dev/null > "$root/root/boot.log" 2>&1 || true
if [ ! -e "$root/root/passed" ]; then
  tail -n 5 "$root/root/boot.log" >&2
  tail -n 80 "$root/root/try.log" >&2
  echo "test-package: failed" >&2
  exit 1
fi
echo "test-package: installed, used, upgraded, removed and purged"
