// SPDX-License-Identifier: Apache-2.0

package face

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
)

const (
	// startConnections is over how many connections the check at start asks: fewer
	// than Check, because every process does it.
	startConnections = 3
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
// the first session is opened, so that New does no I/O and whoever only looks
// (Inspect, List, Check) can do so at a server that is not.
type start struct {
	over atomic.Bool

	mu    sync.Mutex
	look  *look // under way
	again time.Time

	told map[string]bool // belongs to the look under way
}

// look is one check; err is set when it is done.
type look struct {
	done chan struct{}
	err  error
}

// Open implements driver.Store. It opens no session at a server that cannot keep
// locks, and says with driver.ErrRefused why, and which setting to change; when that
// was done the next Open finds out.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Life, error) {
	if err := Begin(ctx, s); err != nil {
		return nil, driver.Life{}, err
	}
	return s.Store.Open(ctx, req)
}

// Begin checks the servers, unless that was done. The error says why they cannot
// keep locks, or, with driver.ErrUnavailable, that ctx ended before they told: nothing
// was opened then.
func Begin(ctx context.Context, s *Store) error {
	if s.start.over.Load() {
		return nil
	}
	s.start.mu.Lock()
	l := s.start.look
	if l == nil {
		if time.Now().Before(s.start.again) {
			s.start.mu.Unlock()
			return nil
		}
		// Not on the caller's context: a caller in a hurry would come again and
		// again and never see the end of it.
		l = &look{done: make(chan struct{})}
		s.start.look = l
		go s.lookAtServers(l)
	}
	s.start.mu.Unlock()
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return fmt.Errorf("redisstore: %w: no answer in time to whether locks can be kept here: %w", driver.ErrUnavailable, ctx.Err())
	}
}

// lookAtServers is a check at start.
func (s *Store) lookAtServers(l *look) {
	bound := startBound
	if s.client.Sharded() {
		bound = startBoundCluster
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	findings, failed := s.check(ctx, startConnections)
	if slices.ContainsFunc(findings, func(f driver.Finding) bool { return f.Code == "proxy" }) {
		// A server that was replaced meanwhile looks the same, once.
		findings, failed = s.check(ctx, startConnections)
	}
	refused, rest := s.split(findings)
	for _, f := range rest {
		s.tell(f)
	}
	s.start.mu.Lock()
	defer s.start.mu.Unlock()
	defer close(l.done)
	s.start.look = nil
	switch {
	case len(refused) > 0:
		l.err = refusal(refused)
	case failed == nil:
		s.start.over.Store(true)
	case s.client.Sharded():
		s.start.again = time.Now().Add(startAgain)
	}
}

// split takes out what was accepted, and says for which of the others no session can
// be opened. A replica is not among these: it is what a client sees of a failover
// that is under way, and it says by itself that it grants nothing.
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

// refusal is the error of a session that cannot be opened.
func refusal(findings []driver.Finding) error {
	var lines, known []string
	for _, f := range findings {
		lines = append(lines, f.String())
		if q := fmt.Sprintf("%q", f.Code); !slices.Contains(known, q) {
			known = append(known, q)
		}
	}
	return fmt.Errorf("redisstore: no locks here: %s; to go on all the same set Options.Accept to %s: %w",
		strings.Join(lines, "; "), strings.Join(known, ", "), driver.ErrRefused)
}

// tell tells of a finding, once. There is one check at a time.
func (s *Store) tell(f driver.Finding) {
	if s.start.told[f.Node+" "+f.Code] {
		return
	}
	s.start.told[f.Node+" "+f.Code] = true
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
