#!/usr/bin/env bash
# stop.sh [PORT=19467]
. "$(dirname "$0")/../../sinks/lib.sh"
halt "transit-${1:-19467}" "${2:-}"
