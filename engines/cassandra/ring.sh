#!/usr/bin/env bash
# Starts a ring in the background, node i on 127.0.0.i, and waits until all of it takes clients. A node that runs is left alone.
# usage: ring.sh <jars> <data directory> [nodes] [native port] [storage port] [jmx port of the first] [heap] [data centers]
# Data centers are names by node, the last one for all that follow: "dc1 dc1 dc2".
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$2"
jars=$(cd "$1" && pwd) data=$(cd "$2" && pwd) nodes=${3:-3} native=${4:-9042} storage=${5:-7000} jmx=${6:-7199} heap=${7:-512m}
read -ra centers <<<"${8:-dc1}"
seeds=$(seq -f "127.0.0.%g:$storage" -s, "$nodes")
for i in $(seq "$nodes"); do
  node=$data/$i
  mkdir -p "$node"
  if [ -f "$node/pid" ] && kill -0 "$(cat "$node/pid")" 2>/dev/null; then continue; fi
  center=${centers[i - 1]:-${centers[-1]}}
  # Evenly spread: the range of tokens in as many pieces.
  token=$(node -e "console.log(String(-(2n ** 63n) + (2n ** 64n / BigInt($nodes)) * BigInt($i - 1)))")
  setsid "$here/start.sh" "$jars" "$node" --address "127.0.0.$i" --native "$native" --storage "$storage" --jmx $((jmx + i - 1)) \
    --heap "$heap" --seeds "$seeds" --dc "$center" --rack "rack$i" --token "$token" >"$node/out.log" 2>&1 </dev/null &
done
for i in $(seq "$nodes"); do "$here/ready.sh" "127.0.0.$i" "$native"; done
