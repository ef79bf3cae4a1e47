#!/usr/bin/env bash
# Builds the TiKV-protocol engine (a real PD with unistore) from Go modules; needs Go. usage: install.sh [target file]
set -euo pipefail
cd "$(dirname "$0")"
target=${1:-../../.cache/engines/unipd}
[ -x "$target" ] && exit 0
mkdir -p "$(dirname "$target")"
target=$(realpath "$target")
cd uni
# The modules are of 2021: their versions stay as go.sum has them, and the linker lets them reach into the runtime.
go build -mod=mod -ldflags=-checklinkname=0 -o "$target.$$" .
mv "$target.$$" "$target"
