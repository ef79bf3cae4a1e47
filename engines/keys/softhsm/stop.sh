#!/usr/bin/env bash
# stop.sh [NAME=softhsm]: deletes the token
. "$(dirname "$0")/../../sinks/lib.sh"
rm -rf "$RUN/${1:-softhsm}"
