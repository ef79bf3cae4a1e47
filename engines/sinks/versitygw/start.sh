#!/usr/bin/env bash
# start.sh [PORT=19485]: S3 on 127.0.0.1 over a folder, keys sluice and sluicesecret. Versions of objects are kept in a sibling folder.
. "$(dirname "$0")/../lib.sh"
port=${1:-19485}; n=versitygw-$port; d=$RUN/$n; mkdir -p "$d"/{data,versions}
ROOT_ACCESS_KEY=${ACCESS:-sluice} ROOT_SECRET_KEY=${SECRET:-sluicesecret} daemon "$n" "$port" "$ENGINES_HOME/bin/versitygw" --port "127.0.0.1:$port" --region us-east-1 --health /health --keep-alive posix --versioning-dir "$d/versions" "$d/data"
