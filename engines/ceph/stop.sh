#!/usr/bin/env bash
# Stops what start.sh and radosgw.sh started, by its process ids. usage: stop.sh <data directory> [wipe]
set -euo pipefail
[ -d "${1:-}" ] || { echo "stop.sh: there is no directory ${1:-}; usage: stop.sh <data directory> [wipe]" >&2; exit 2; }
directory=$(cd "$1" && pwd)

# A process id that was given to another program, or to a daemon of another cluster, meanwhile is left alone.
runs() { grep -qa "$directory/" "/proc/$1/cmdline" 2>/dev/null; }

stop() {
  local file=$1 pid
  [ -e "$file" ] || return 0
  pid=$(cat "$file")
  if runs "$pid"; then
    # A stopped process hears nothing but this.
    kill -CONT "$pid" && kill "$pid"
    for _ in $(seq 100); do
      runs "$pid" || break
      sleep .1
    done
    runs "$pid" && kill -9 "$pid"
    for _ in $(seq 50); do runs "$pid" || break; sleep .1; done
    if runs "$pid"; then echo "stop.sh: process $pid does not end; nothing was wiped" >&2; exit 1; fi
  fi
  rm -f "$file"
}

for daemon in client osd mgr mon; do
  for file in "$directory"/run/$daemon.*.pid; do stop "$file"; done
done
if [ "${2:-}" = wipe ]; then rm -rf "$directory"; fi
