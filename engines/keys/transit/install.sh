#!/usr/bin/env bash
# Vault's own transit engine behind a small HTTP frame (main.go), from the Go module proxy. Neither OpenBao nor a Vault server can be had
# there: the proxy refuses the first and has no sdk that fits the second's core. A test peer only: Vault's licence is BUSL.
. "$(dirname "$0")/../../sinks/lib.sh"
go_here vault-transit
