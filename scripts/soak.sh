#!/bin/bash
# Soak: real programs (curl, git, rsync, scp, pip, HTTPS opened) through two pairs of `serve` and `connect` for TIME, while the path is cut,
# transports are reset, peers are reloaded, and, in one of the pairs, ends are killed, restarted and upgraded from OLD to NEW and
# back, with caches on disk. Compares every byte, samples memory, descriptors and threads, and ends with a verdict (status 1 if it is bad).
#
#   scripts/soak.sh 1h OLD-PROGRAM [NEW-PROGRAM]
#   OUT=DIR scripts/soak.sh 10m target/release/oncewire     # keeps samples, tasks, disturbances, the record and logs there
#
# Needs root, nginx, openssl, curl, git with its daemon, rsync, sshd, pip. Works in network namespaces of its own, on copies of the programs.
# Below five minutes, caches still fill while memory is compared, so the verdict is that it grows.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here="$(dirname "$(realpath "$0")")"
exec unshare --net python3 -B "$here/soak.py" "$@"
