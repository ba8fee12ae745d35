// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
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

	reported map[string]bool // belongs to the check under way
}

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
	refused, rest := s.split(findings)
	for _, f := range rest {
		s.report(f)
	}
	s.start.mu.Lock()
	defer s.start.mu.Unlock()
	defer close(l.done)
	s.start.running, s.start.last = nil, nil
	if rediscmd.NoConnection(failed) {
		s.start.last = failed
	}
	switch {
	case len(refused) > 0:
		l.err = refusal(refused)
	case failed == nil:
		s.start.over.Store(true)
	case s.client.Sharded():
		s.start.again = time.Now().Add(startAgain)
	case rediscmd.NoConnection(failed):
		l.err = failed // a session's own call would say the same, later
	}
}

// split drops what was accepted, and returns for which of the others no session can be
// opened. A replica is not among these: it is what a client sees of a failover
// that is under way, and it answers by itself that it grants nothing.
func (s *Store) split(findings []driver.Finding) (refused, rest []driver.Finding) {
	for _, f := range findings {
		switch {
		case slices.Contains(s.opts.Accept, f.Code):
		case f.Severity == driver.Danger && f.Code != "replica":
			refused = append(refused, f)
		default:
			rest = append(rest, f)
		}
	}
	return refused, rest
}

// neverAccepted are findings with which no lock can be acquired: accepting them does not help.
var neverAccepted = []string{"sentinel", "info-forbidden", "commands-forbidden", "commands-missing", "scripts-restricted"}

// refusal is the error of a session that cannot be opened.
func refusal(findings []driver.Finding) error {
	var lines, known []string
	for _, f := range findings {
		lines = append(lines, f.String())
		if !slices.Contains(known, f.Code) {
			known = append(known, f.Code)
		}
	}
	if slices.ContainsFunc(known, func(code string) bool { return slices.Contains(neverAccepted, code) }) {
		return fmt.Errorf("redisstore: the server is not safe for locks: %s: %w", strings.Join(lines, "; "), driver.ErrRefused)
	}
	return fmt.Errorf("redisstore: the server is not safe for locks: %s; to proceed anyway add accept=%s to the URL (Options.Accept): %w",
		strings.Join(lines, "; "), strings.Join(known, ","), driver.ErrRefused)
}

// report reports a finding, once. There is one check at a time.
func (s *Store) report(f driver.Finding) {
	if s.start.reported[f.Node+" "+f.Code] {
		return
	}
	s.start.reported[f.Node+" "+f.Code] = true
	if s.opts.Warn != nil {
		s.opts.Warn(f)
		return
	}
	level := slog.LevelWarn
	if f.Severity == driver.Note {
		level = slog.LevelInfo
	}
	slog.Default().Log(context.Background(), level, "fencelock: "+f.Reason,
		"engine", "redis", "server", f.Node, "code", f.Code, "fix", f.Fix)
}
