// SPDX-License-Identifier: Apache-2.0

// Package server does to the servers of package servers what happens to servers: SIGSTOP,
// kill -9, a restart with or without their data, a full disk, a clock that jumps.
package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

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

// small mounts a small disk in memory as the folder of a server.
func (r *Redis) small() error {
	if err := mount(r.Dir(), "4m"); err != nil {
		return fmt.Errorf("a small disk cannot be mounted: %w; run it as root", err)
	}
	r.disk = r.Dir()
	return nil
}

// ballast leaves nothing free on the small disk of a server, until the function
// that it returns is called.
func (r *Redis) ballast() (empty func() error, err error) {
	if r.disk == "" {
		return nil, errors.New("the server has no small disk")
	}
	path := filepath.Join(r.disk, "ballast")
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for size := len(block); size > 0; {
		if _, err := f.Write(block[:size]); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				return nil, err
			}
			size /= 2 // what is left is smaller
		}
	}
	return func() error { return os.Remove(path) }, nil
}

// busyScript counts, because neither the clock nor the processor's clock can be read in a
// script of every version.
const busyScript = `local n = tonumber(ARGV[1]); for i = 1, n do n = n end; return 1`

// firstCount is how far the first script counts; those after it are measured by it.
const firstCount = 1e6

// Occupy implements Occupied.
func (r *Redis) Occupy(ctx context.Context, by, d time.Duration) error {
	c := redis.NewClient(&redis.Options{Addr: r.Addr, DisableIdentity: true, MaxRetries: -1, ReadTimeout: 10 * time.Second})
	defer c.Close()
	count := float64(firstCount)
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(by) {
		began := time.Now()
		if err := c.Eval(ctx, busyScript, nil, int64(count)).Err(); err != nil {
			return err
		}
		// At most ten times as far: on a busy machine one measurement means little.
		count *= min(10, max(0.1, by.Seconds()/time.Since(began).Seconds()))
	}
	return nil
}
