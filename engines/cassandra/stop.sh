#!/usr/bin/env bash
# Ends what ring.sh started; with `wipe` its data goes too. usage: stop.sh <data directory> [wipe]
set -euo pipefail
for file in "$1"/*/pid; do
  [ -f "$file" ] || continue
  pid=$(cat "$file")
  kill "$pid" 2>/dev/null || true
  for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.2; done
  kill -9 "$pid" 2>/dev/null || true
  rm -f "$file"
done
if [ "${2:-}" = wipe ]; then rm -rf "$1"; fi
