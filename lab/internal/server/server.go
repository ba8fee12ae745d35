// SPDX-License-Identifier: Apache-2.0

// Package server does to the servers of package servers what happens to servers: SIGSTOP,
// kill -9, a restart with or without their data, a full disk, a clock that jumps.
package server

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/fault"
)

// ErrMissing: the program is not installed. The error says how to install it.
var ErrMissing = servers.ErrMissing

// Server is one server of a deployment, running or not.
type Server interface {
	// Start starts a server that was killed, with the data it has on disk.
	Start() error
	// Pause stops the process where it is; Resume lets it go on.
	Pause() error
	Resume() error
	// Kill ends the process as a crash does, and returns when it is gone.
	Kill()
	// Stop ends the server and removes its folder.
	Stop()
}

// Wiper is a server that can be started without its data.
type Wiper interface {
	// Wipe removes the data of a server that does not run.
	Wipe() error
}

// Commander is a server to which some faults are done by a command.
type Commander interface {
	Do(ctx context.Context, v fault.Verb) error
}

// Clocked is a server whose clock can be set, if it was started so.
type Clocked interface{ Clock() *servers.Clock }

// Occupied is a server that runs scripts one after the other, so that a long one keeps it from
// everything else.
type Occupied interface {
	// Occupy runs scripts that last by each, for as long as d says, with pauses as long.
	Occupy(ctx context.Context, by, d time.Duration) error
}
