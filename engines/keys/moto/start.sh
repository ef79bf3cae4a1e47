#!/usr/bin/env bash
# start.sh [PORT=19460]: moto on 127.0.0.1; POST /moto-api/reset empties it.
. "$(dirname "$0")/../../sinks/lib.sh"
port=${1:-19460}
daemon "moto-$port" "$port" "$ENGINES_HOME/py/bin/moto_server" -H 127.0.0.1 -p "$port"
