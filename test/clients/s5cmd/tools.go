//go:build tools

// Package clients names the client that this module pins, so that `go mod tidy` keeps it.
package clients

import _ "github.com/peak/s5cmd/v2"
