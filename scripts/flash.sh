#!/bin/sh
# Figures of docs/STORE.md: device bytes per byte of content, memory by the size of a store, restart
# after kill -9, and objects that lie only on disk. Needs python3. `flash.py` measures the index.
#
#     scripts/flash.sh ONCEWIRE DIR [--sizes 512M,2G,8G] [--megabytes 300] [--fill | --corpus FILE...]
exec python3 "$(dirname "$0")/store.py" "$@"
