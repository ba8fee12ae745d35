// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/fault"
)

// Wrapped is a server of package servers.
type Wrapped struct {
	*servers.Server
	// Harm does what is done by a command; nil if nothing is.
	Harm   func(ctx context.Context, v fault.Verb) error
	resume func()
}

// Wrap makes a Server of a server of package servers.
func Wrap(s *servers.Server) *Wrapped { return &Wrapped{Server: s} }

// WithClock starts the server again with a clock that can be set.
func (w *Wrapped) WithClock() error {
	c, err := servers.FakeClock()
	if err != nil {
		return err
	}
	w.Kill()
	w.UseClock(c)
	return w.Start()
}

// Pause implements Server.
func (w *Wrapped) Pause() error {
	if w.PID() == 0 {
		return errors.New("the server does not run")
	}
	w.resume = w.Server.Pause()
	return nil
}

// Resume implements Server.
func (w *Wrapped) Resume() error {
	if w.PID() == 0 || w.resume == nil {
		return errors.New("the server does not run, or was not paused")
	}
	w.resume()
	return nil
}

// Do implements Commander.
func (w *Wrapped) Do(ctx context.Context, v fault.Verb) error {
	if w.Harm == nil {
		return fmt.Errorf("this server cannot be harmed by %q", v)
	}
	return w.Harm(ctx, v)
}

// ZooKeeper is one server of an ensemble.
type ZooKeeper struct {
	*Wrapped
	server *servers.EnsembleServer
}

// NewZooKeeper wraps a server.
func NewZooKeeper(s *servers.EnsembleServer) *ZooKeeper { return &ZooKeeper{Wrap(s.Server), s} }

// Mode returns leader, follower or standalone, or "" if the server does not serve.
func (z *ZooKeeper) Mode() string { return z.server.Mode() }

// Wipe implements Wiper.
func (z *ZooKeeper) Wipe() error { return z.server.Wipe() }
