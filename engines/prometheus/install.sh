#!/usr/bin/env bash
# Prometheus and promtool from Debian (2.42): the tests read the metrics of a gateway with them.
. "$(dirname "$0")/../sinks/lib.sh"
deb prometheus
