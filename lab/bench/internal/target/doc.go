// SPDX-License-Identifier: Apache-2.0

// Package target starts the servers that are measured, on free loopback ports,
// reads what they count, and stops them.
//
// To add a server, write a file with a type that implements Server.
package target

import "context"

// Server is a running server, or several that work together.
type Server interface {
	// Addr is what candidates are given to connect to.
	Addr() string
	// Version is the name and version of the server.
	Version(ctx context.Context) (string, error)
	// ResetStats makes the server count from zero, Stats returns what it has
	// counted since. Stats is nil if the server does not count.
	ResetStats(ctx context.Context) error
	Stats(ctx context.Context) (Stats, error)
	// CPU is the seconds of processor time it has used, Memory the bytes it has.
	CPU(ctx context.Context) (float64, error)
	Memory(ctx context.Context) (float64, error)
	// Stop ends it and removes what it wrote.
	Stop()
}
