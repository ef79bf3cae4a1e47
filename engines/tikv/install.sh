#!/usr/bin/env bash
# Builds the TiKV-protocol engines from Go modules; needs Go. usage: install.sh [target directory] [uni|double|peer]
# uni is a real PD with unistore in one process, double a fault injector over client-go's test store; peer, which the
# bench alone asks for, is client-go itself.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# A relative path is the caller's.
target=${1:-$here/../../.cache/engines}
mkdir -p "$target"
target=$(realpath "$target")
cd "$here"
exec 9>"$target/tikv.lock"
flock 9

# Its modules are of 2021: their versions stay as go.sum has them, and the linker lets them reach into the runtime.
uni() {
  (cd uni && go build -mod=mod -ldflags=-checklinkname=0 -o "$target/unipd.$$" .)
  mv "$target/unipd.$$" "$target/unipd"
}

peer() {
  (cd peer && go build -mod=mod -o "$target/tikv-peer.$$" .)
  mv "$target/tikv-peer.$$" "$target/tikv-peer"
}

# TiKV does not repeat the check for conflicts when a prewrite takes the place of its own pessimistic lock; the test
# store of client-go 2.0.7 does, in one line, which is changed here.
double() {
  local work file=vendor/github.com/tikv/client-go/v2/internal/mockstore/mocktikv/mvcc_leveldb.go
  work=$(mktemp -d)
  cp double/*.go double/go.mod double/go.sum "$work"
  (
    cd "$work"
    go mod vendor
    awk '/Overwrite the pessimistic lock/ { near = 1 }
      near && sub(/checkConflictValue\(iter, mutation, startTS, startTS/, "checkConflictValue(iter, mutation, math.MaxUint64, startTS") { near = 0; n++ }
      { print } END { exit n != 1 }' "$file" >mended.go
    mv mended.go "$file"
    go build -mod=vendor -o "$target/tikv-double.$$" .
  )
  rm -rf "$work"
  mv "$target/tikv-double.$$" "$target/tikv-double"
}

# Only what has changed is built again.
for engine in ${2:-uni double}; do
  sources=$(cat install.sh "$engine"/* | sha256sum)
  [ "$(cat "$target/tikv-$engine.stamp" 2>/dev/null)" = "$sources" ] && continue
  "$engine"
  echo "$sources" >"$target/tikv-$engine.stamp"
done
