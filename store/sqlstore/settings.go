// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// layout is the version of the tables' layout, as the table of the incarnation has it.
const layout = "v2"

// rules are the settings in the table of the incarnation, or what a process asks for.
type rules struct {
	grace  int64 // 1 if a data loss begins a grace period
	maxTTL int64 // in µs: the highest that a process declares
}

func graceOf(on bool) int64 {
	if on {
		return 1
	}
	return 0
}

// and returns the stronger of both.
func (r rules) and(o rules) rules { return rules{max(r.grace, o.grace), max(r.maxTTL, o.maxTTL)} }

// graceFor is how long a new incarnation grants nothing, in µs.
func (r rules) graceFor() int64 { return r.grace * r.maxTTL }

// declared is the column of a session: max_ttl in µs, negative without grace.
func (r rules) declared() int64 {
	if r.grace == 0 {
		return -r.maxTTL
	}
	return r.maxTTL
}

// memory is what a process asks for, and what it has seen, whatever becomes of the tables (rules Remembered
// and Known of package gracemodel).
type memory struct {
	mu      sync.Mutex
	own     rules // what it asks for
	seen    rules
	graceIn int64 // incarnation in which grace was seen last
	maxIn   int64 // incarnation of which the max_ttl is
}

// init notes what the options ask for. A process that asks for no grace and sets no MaxTTL
// declares the TTLs of its sessions only: the tables would remember a bound that no session needs when grace is switched on.
func (m *memory) init(o *Options) {
	m.own.grace = graceOf(o.Grace)
	if o.Grace || o.maxTTLSet {
		m.own.maxTTL = o.MaxTTL.Microseconds()
	}
}

// declare makes a TTL part of what this process asks for.
func (m *memory) declare(ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.own.maxTTL = max(m.own.maxTTL, ttl.Microseconds())
}

// learn takes what the tables say in an incarnation. What they do not say any more in the same
// incarnation was changed by Configure; in another one it may have been lost.
func (m *memory) learn(inc int64, r rules) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.grace >= m.seen.grace || inc == m.graceIn {
		m.seen.grace, m.graceIn = r.grace, inc
	}
	if r.maxTTL >= m.seen.maxTTL || inc == m.maxIn {
		m.seen.maxTTL, m.maxIn = r.maxTTL, inc
	}
}

// asks is what this process asks for, whatever the tables have.
func (m *memory) asks() rules {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.own
}

// knows is what it asks for, or has seen in another incarnation than this one: in this one an operator may have made
// the tables weaker.
func (m *memory) knows(inc int64) rules {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.own
	if m.graceIn != inc {
		r.grace = max(r.grace, m.seen.grace)
	}
	if m.maxIn != inc {
		r.maxTTL = max(r.maxTTL, m.seen.maxTTL)
	}
	return r
}

// noInc is no incarnation: all that was seen counts.
const noInc = -1

// beginFirst sets tables up that have no incarnation. All may have been lost.
func (s *Store) beginFirst(ctx context.Context) error {
	r := s.memory.knows(noInc)
	_, err := s.changed(ctx, "createIncarnation", r.graceFor(), layout, r.grace, r.maxTTL)
	return err
}

// beginNext begins a new incarnation of tables that another server had.
func (s *Store) beginNext(ctx context.Context, m *incarnation) error {
	r := m.rules.and(s.memory.knows(noInc))
	_, err := s.changed(ctx, "renewIncarnation", r.graceFor(), r.grace, r.maxTTL, m.inc)
	return err
}

// strengthen gives the tables what a process asks for and they have not.
func (s *Store) strengthen(ctx context.Context, inc int64, r rules) error {
	_, err := s.changed(ctx, "strengthen", r.grace, r.maxTTL, r.maxTTL, r.grace, inc)
	return err
}

// errVacant is returned to a reader of tables that no session has been opened in.
var errVacant = errors.New("sqlstore: the tables are not set up")

// ErrNoTables is returned, wrapped, when the tables of the store do not exist in the
// database, or the role may not know of them: they must be created first, with Migrate.
var ErrNoTables = errors.New("the tables do not exist")

// notElsewhere ends advice about settings.
const notElsewhere = "another namespace would not exclude the processes that run"

// otherVersion is the error for tables that this version cannot read.
func otherVersion(prefix, text string) error {
	return fmt.Errorf("sqlstore: the tables %s* were set up with layout %q, by another version of this library; use the same version in all processes; %s: %w",
		prefix, text, notElsewhere, driver.ErrRefused)
}
