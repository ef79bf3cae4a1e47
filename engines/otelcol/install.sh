#!/usr/bin/env bash
# The OpenTelemetry Collector with four components (main.go), from the Go module proxy. go.mod and go.sum stay as they are: the proxy
# serves some versions only (newest ones are listed but refused), and the collector's own builder asks for more than it has.
. "$(dirname "$0")/../sinks/lib.sh"
go_here otelcol
