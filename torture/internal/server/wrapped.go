// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/internal/zktest"
	"github.com/fencelock/fencelock/torture/internal/fault"
)

// Wrapped is a database or a pooler of package servers.
type Wrapped struct {
	*servers.Server
	// Harm does what is done by a command; nil if nothing is.
	Harm   func(ctx context.Context, v fault.Verb) error
	clock  *Clock
	resume func()
}

// Wrap makes a Server of a server of package servers.
func Wrap(s *servers.Server) *Wrapped { return &Wrapped{Server: s} }

// WithClock starts the server again with a clock that can be set.
func (w *Wrapped) WithClock() (err error) {
	if w.clock, err = fakeClock(); err != nil {
		return err
	}
	w.Server.Kill()
	w.Server.Env = w.clock.env()
	return w.Server.Again()
}

// Start implements Server.
func (w *Wrapped) Start() error { return w.Server.Again() }

// Pause implements Server.
func (w *Wrapped) Pause() error {
	w.resume = w.Server.Pause()
	return nil
}

// Resume implements Server.
func (w *Wrapped) Resume() error {
	w.resume()
	return nil
}

// Stop implements Server.
func (w *Wrapped) Stop() {
	w.clock.remove()
	w.Server.Stop()
}

// Clock implements Clocked.
func (w *Wrapped) Clock() *Clock { return w.clock }

// Do implements Commander.
func (w *Wrapped) Do(ctx context.Context, v fault.Verb) error {
	if w.Harm == nil {
		return fmt.Errorf("this server cannot be harmed by %q", v)
	}
	return w.Harm(ctx, v)
}

// ZooKeeper is one server of an ensemble.
type ZooKeeper struct {
	*zktest.Server
	resume func()
	pid    atomic.Int64
}

// NewZooKeeper wraps a server that runs.
func NewZooKeeper(s *zktest.Server) *ZooKeeper {
	z := &ZooKeeper{Server: s}
	z.pid.Store(int64(s.PID()))
	return z
}

// PID returns the number of the process, 0 if it does not run. Others may ask while
// it is killed or started.
func (z *ZooKeeper) PID() int { return int(z.pid.Load()) }

// Start implements Server. It returns when the server serves; one that finds no
// others does not.
func (z *ZooKeeper) Start() error {
	if err := z.Server.Run(); err != nil {
		return err
	}
	z.pid.Store(int64(z.Server.PID()))
	return z.Server.Await(context.Background())
}

// Pause implements Server.
func (z *ZooKeeper) Pause() error {
	z.resume = z.Server.Pause()
	return nil
}

// Resume implements Server.
func (z *ZooKeeper) Resume() error {
	z.resume()
	return nil
}

// Kill implements Server.
func (z *ZooKeeper) Kill() {
	z.pid.Store(0)
	z.Server.Kill()
}

// Stop implements Server; the folder belongs to the ensemble.
func (z *ZooKeeper) Stop() { z.Kill() }
