#!/usr/bin/env bash
# Stops what start.sh or ring.sh started on a directory, by its process ids; with `wipe` its data goes too, but never under
# a node that still runs. usage: stop.sh <data directory> [wipe]
set -euo pipefail
[ -d "${1:-}" ] || { echo "stop.sh: there is no directory ${1:-}; usage: stop.sh <data directory> [wipe]" >&2; exit 2; }
data=$(cd "$1" && pwd)

# A process id that was given to another program meanwhile is left alone.
runs() { grep -qa "$data" "/proc/$1/cmdline" 2>/dev/null; }

for file in "$data"/pid "$data"/*/pid; do
  [ -f "$file" ] || continue
  pid=$(cat "$file")
  if runs "$pid"; then
    # A stopped process hears nothing but this.
    kill -CONT "$pid" && kill "$pid"
    for _ in $(seq 100); do runs "$pid" || break; sleep 0.2; done
    runs "$pid" && kill -9 "$pid"
    for _ in $(seq 50); do runs "$pid" || break; sleep 0.1; done
    if runs "$pid"; then echo "stop.sh: process $pid does not end; nothing was wiped" >&2; exit 1; fi
  fi
  rm -f "$file"
done
[ "${2:-}" = wipe ] || exit 0
# Of a node without a pid file.
for cmdline in /proc/[0-9]*/cmdline; do
  if { tr '\0' '\n' <"$cmdline"; } 2>/dev/null | grep -qF "cassandra.storagedir=$data"; then
    echo "stop.sh: process $(basename "$(dirname "$cmdline")") runs on $data; nothing was wiped" >&2
    exit 1
  fi
done
rm -rf "$data"
