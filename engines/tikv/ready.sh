#!/usr/bin/env bash
# Waits until a store leads regions, as PD tells it. usage: ready.sh <pd address> [seconds]
set -euo pipefail
for _ in $(seq $((${2:-60} * 5))); do
  curl -fs "http://$1/pd/api/v1/stores" 2>/dev/null | grep -Eq '"leader_count": ?[1-9]' && exit 0
  sleep 0.2
done
echo "PD at $1 has no store that leads" >&2
exit 1
