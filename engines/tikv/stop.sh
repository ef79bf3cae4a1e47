#!/usr/bin/env bash
# Ends the engine of a directory; without one that runs there is nothing to end. usage: stop.sh <data directory> [wipe]
set -euo pipefail
[ -d "${1:-}" ] || { echo "stop.sh: there is no directory ${1:-}; usage: stop.sh <data directory> [wipe]" >&2; exit 2; }

# A process id that was given to another program meanwhile is left alone.
runs() { grep -qaE "unipd|tikv-double" "/proc/$1/cmdline" 2>/dev/null; }

if [ -f "$1/pid" ]; then
  pid=$(cat "$1/pid")
  if runs "$pid"; then
    # A stopped process hears nothing but this.
    kill -CONT "$pid" && kill "$pid"
    for _ in $(seq 100); do runs "$pid" || break; sleep 0.1; done
    runs "$pid" && kill -9 "$pid"
    for _ in $(seq 50); do runs "$pid" || break; sleep 0.1; done
    if runs "$pid"; then echo "stop.sh: process $pid does not end; nothing was wiped" >&2; exit 1; fi
  fi
  rm -f "$1/pid"
fi
if [ "${2:-}" = wipe ]; then rm -rf "$1"; fi
