#!/usr/bin/env bash
# Stops what start.sh and radosgw.sh started, by its process ids. usage: stop.sh <data directory> [wipe]
set -euo pipefail
directory=$1

stop() {
  local file=$1 pid
  [ -e "$file" ] || return 0
  pid=$(cat "$file")
  if grep -qaE "ceph|radosgw" "/proc/$pid/cmdline" 2>/dev/null; then
    # A stopped process hears nothing but this.
    kill -CONT "$pid" && kill "$pid"
    for _ in $(seq 100); do
      kill -0 "$pid" 2>/dev/null || break
      sleep .1
    done
    kill -9 "$pid" 2>/dev/null || true
  fi
  rm -f "$file"
}

for daemon in client osd mgr mon; do
  for file in "$directory"/run/$daemon.*.pid; do stop "$file"; done
done
if [ "${2:-}" = wipe ]; then rm -rf "$directory"; fi
