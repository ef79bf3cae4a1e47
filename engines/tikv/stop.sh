#!/usr/bin/env bash
# Ends the engine of a directory. usage: stop.sh <data directory> [wipe]
set -euo pipefail
pid=$(cat "$1/pid")
kill "$pid" 2>/dev/null || true
for _ in $(seq 100); do
  kill -0 "$pid" 2>/dev/null || break
  sleep 0.1
done
kill -9 "$pid" 2>/dev/null || true
if [ "${2:-}" = wipe ]; then rm -rf "$1"; else rm -f "$1/pid"; fi
