// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

const (
	// startConnections is over how many connections the check at start asks. Three
	// missed a second server behind the address in every fourth start.
	startConnections = askedAtOnce
	// startBound is how long the check may take. Sessions wait for it no longer
	// than their own calls may take, and the next one finds it under way.
	startBound = 10 * time.Second
	// startBoundCluster is shorter, because a node that does not answer concerns
	// only some of the sessions. They are opened then, and the cluster is asked
	// again by the first that comes after startAgain.
	startBoundCluster = 2 * time.Second
	startAgain        = 10 * time.Second
)

// start is whether the servers were found fit to keep locks. They are asked when
// the first session is opened, so that New does no I/O and Inspect, List and Check
// work with a server that is not.
type start struct {
	over atomic.Bool

	mu      sync.Mutex
	running *startCheck // under way
	again   time.Time
	last    error // why the last check found no connection; nil if it did

	gate storekit.Gate
}

// neverAccepted are findings with which no lock can be acquired: accepting them does not help.
var neverAccepted = []string{"sentinel", "info-forbidden", "commands-forbidden", "commands-missing", "scripts-restricted"}

// notRefused are dangers that are reported only. A replica is what a client sees of a failover that is under way, and it
// answers by itself that it grants nothing.
var notRefused = []string{"replica"}

// startCheck is one check; err is set when it is done.
type startCheck struct {
	done chan struct{}
	err  error
}

// CheckAtStart checks the servers, unless that was done. The error names why they cannot
// keep locks, or wraps driver.ErrUnavailable if ctx ended before they answered: nothing
// was opened then.
func CheckAtStart(ctx context.Context, s *Store) error {
	if s.start.over.Load() {
		return nil
	}
	s.start.mu.Lock()
	l := s.start.running
	if l == nil {
		if time.Now().Before(s.start.again) {
			s.start.mu.Unlock()
			return nil
		}
		// Not on the caller's context: a caller in a hurry would come again and
		// again and never see the end of it.
		l = &startCheck{done: make(chan struct{})}
		s.start.running = l
		go s.runStartCheck(l)
	}
	s.start.mu.Unlock()
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		s.start.mu.Lock()
		last := s.start.last
		s.start.mu.Unlock()
		if last != nil {
			return fmt.Errorf("%w: %w", last, ctx.Err())
		}
		return fmt.Errorf("redisstore: %w: the server could not be checked in time: %w", driver.ErrUnavailable, ctx.Err())
	}
}

// runStartCheck checks the servers before the first session is opened.
func (s *Store) runStartCheck(l *startCheck) {
	bound := startBound
	if s.client.Sharded() {
		bound = startBoundCluster
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	findings, failed := s.check(ctx, startConnections)
	if slices.ContainsFunc(findings, func(f driver.Finding) bool { return f.Code == "proxy" }) {
		// A server that is replaced during the check gives the same finding, once.
		findings, failed = s.check(ctx, startConnections)
	}
	refused := s.start.gate.Judge(findings)
	s.start.mu.Lock()
	defer s.start.mu.Unlock()
	defer close(l.done)
	s.start.running, s.start.last = nil, nil
	if rediscmd.NoConnection(failed) {
		s.start.last = failed
	}
	switch {
	case refused != nil:
		l.err = refused
	case failed == nil:
		s.start.over.Store(true)
	case s.client.Sharded():
		s.start.again = time.Now().Add(startAgain)
	case rediscmd.NoConnection(failed):
		l.err = failed // a session's own call would say the same, later
	}
}
