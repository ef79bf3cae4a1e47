#!/usr/bin/env bash
# stop.sh [PORT=19460] [wipe]
. "$(dirname "$0")/../../sinks/lib.sh"
halt "moto-${1:-19460}" "${2:-}"
