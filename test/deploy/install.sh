#!/usr/bin/env bash
# What checks the files of deploy/: the loader of Docker Compose from the Go module proxy, the schemas of Kubernetes from PyPI, a linter of
# Dockerfiles from npm. Into .cache/deploy.
set -euo pipefail
cd "$(dirname "$0")/../.."
to=$PWD/.cache/deploy compose=github.com/compose-spec/compose-go/v2/cmd@v2.9.0 kubernetes=kubernetes-validate==1.37.0 linter=dockerfile-utils@0.16.3
mkdir -p "$to"
if [ "$(cat "$to/.compose" 2>/dev/null)" != "$compose" ]; then
  (cd "$to" && CGO_ENABLED=0 GOBIN=$to GOFLAGS=-mod=mod go install -trimpath "$compose")
  mv "$to/cmd" "$to/compose-spec"
  echo "$compose" >"$to/.compose"
fi
if [ "$(cat "$to/.kubernetes" 2>/dev/null)" != "$kubernetes" ]; then
  python3 -m venv "$to/python"
  "$to/python/bin/pip" install -q "$kubernetes"
  echo "$kubernetes" >"$to/.kubernetes"
fi
if [ "$(cat "$to/.linter" 2>/dev/null)" != "$linter" ]; then
  npm install --prefix "$to" --no-audit --no-fund --loglevel=error "$linter" >/dev/null
  echo "$linter" >"$to/.linter"
fi
