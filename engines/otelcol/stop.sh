#!/usr/bin/env bash
# stop.sh [PORT=19471] [wipe]
. "$(dirname "$0")/../sinks/lib.sh"
halt "otelcol-${1:-19471}" "${2:-}"
