// SPDX-License-Identifier: Apache-2.0

// Package engine starts the servers that are measured, on free loopback ports,
// reads what they count, and stops them.
//
// To add an engine, write a file with a type that implements Server.
package engine

import "context"

// Server is a running engine.
type Server interface {
	// Addr is what candidates are given to connect to.
	Addr() string
	// Version is the name and version of the engine.
	Version(ctx context.Context) (string, error)
	// ResetStats makes the server count from zero, Stats returns what it has
	// counted since. Stats is nil if the engine does not count.
	ResetStats(ctx context.Context) error
	Stats(ctx context.Context) (Stats, error)
	// CPU is the seconds of processor time it has used, Memory the bytes it has.
	CPU(ctx context.Context) (float64, error)
	Memory(ctx context.Context) (float64, error)
	// Stop ends it and removes what it wrote.
	Stop()
}
