#!/usr/bin/env bash
# Waits until a node takes clients. usage: ready.sh <address> <native port> [seconds]
set -euo pipefail
for _ in $(seq $((${3:-180} * 5))); do
  (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null && exit 0
  sleep 0.2
done
echo "ready.sh: $1:$2 does not answer" >&2
exit 1
