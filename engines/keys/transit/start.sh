#!/usr/bin/env bash
# start.sh [PORT=19467] [TOKEN=root]: the transit engine on 127.0.0.1, mounted at transit/, in memory; main.go says what else answers.
. "$(dirname "$0")/../../sinks/lib.sh"
port=${1:-19467}
daemon "transit-$port" "$port" "$ENGINES_HOME/bin/vault-transit" "127.0.0.1:$port" "${2:-root}"
