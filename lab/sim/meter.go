// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// meter sits between a client and its network. It notices a client that calls
// without a pause, and holds up calls and replies while the machine is suspended.
type meter struct {
	driver.Store
	p *process
}

// pulse counts the calls of a client at one instant of the fake clock, which
// stands still as long as a goroutine is busy: a client that calls without a pause would
// stop the clock forever.
type pulse struct {
	mu    sync.Mutex
	at    time.Time
	calls int
	spins bool
}

// maxPulse is far above what the workers of a client do at one instant.
const maxPulse = 3000

// beat counts a call. The error is definite, so that the caller gives up.
func (p *pulse) beat() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); !now.Equal(p.at) {
		p.at, p.calls = now, 0
	}
	p.calls++
	if p.calls > maxPulse {
		p.spins = true
		return fmt.Errorf("sim: %d calls at one instant: %w", p.calls, driver.ErrRefused)
	}
	return nil
}

// spun reports whether the client ever called without end.
func (p *pulse) spun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spins
}

// Open implements driver.Store.
func (m *meter) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	if err := m.p.leaves(); err != nil {
		return nil, driver.Renewal{}, err
	}
	defer m.p.machine.wait()
	if before, ok := req.Before.(*metered); ok {
		req.Before = before.Session
	}
	s, renewal, err := m.Store.Open(ctx, req)
	if err != nil {
		return nil, renewal, err
	}
	return &metered{s, m.p, req.ID}, renewal, nil
}

// leaves lets a call leave the process: not while its machine is suspended.
func (p *process) leaves() error {
	p.machine.wait()
	return p.pulse.beat()
}

type metered struct {
	driver.Session
	p  *process
	id driver.SessionID
}

// arrives lets a reply get to the process, and writes down one after which the
// session must not go on.
func (m *metered) arrives(err error, renewal bool) {
	m.p.machine.wait()
	definite := err != nil && renewal
	for _, known := range []error{driver.ErrGone, driver.ErrUnknown, driver.ErrUnavailable, driver.ErrReset, context.Canceled, context.DeadlineExceeded} {
		definite = definite && !errors.Is(err, known)
	}
	if definite { // it decides nothing, unless the store refuses the session
		m.p.w.cover.add("renewal: definite error")
	}
	if errors.Is(err, driver.ErrGone) || renewal && errors.Is(err, driver.ErrRefused) {
		m.p.w.cover.add("session: gone")
		m.p.w.rec.add(Event{Kind: Rejected, Client: m.p.index, Session: m.id, Err: err})
	}
}

// Attempt implements driver.Session.
func (m *metered) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if err := m.p.leaves(); err != nil {
		return driver.Outcome{}, err
	}
	out, err := m.Session.Attempt(ctx, c)
	m.arrives(err, false)
	return out, err
}

// Await implements driver.Session.
func (m *metered) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if err := m.p.leaves(); err != nil {
		return driver.Outcome{}, err
	}
	out, err := m.Session.Await(ctx, c)
	m.arrives(err, false)
	return out, err
}

// Withdraw implements driver.Session.
func (m *metered) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	if err := m.p.leaves(); err != nil {
		return driver.WasAbsent, err
	}
	found, err := m.Session.Withdraw(ctx, w)
	m.arrives(err, false)
	if err == nil {
		m.p.w.line.answers(driver.ClaimID{Session: m.id, Seq: w.Seq})
	}
	return found, err
}

// KeepAlive implements driver.Session.
func (m *metered) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	if err := m.p.leaves(); err != nil {
		return driver.Renewal{}, err
	}
	renewal, err := m.Session.KeepAlive(ctx)
	m.arrives(err, true)
	return renewal, err
}

// Reclaim implements driver.Session.
func (m *metered) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	if err := m.p.leaves(); err != nil {
		return nil, err
	}
	kept, err := m.Session.Reclaim(ctx, held, last)
	m.arrives(err, true)
	return kept, err
}

// Close implements driver.Session.
func (m *metered) Close(ctx context.Context) error {
	m.p.machine.wait()
	err := m.Session.Close(ctx)
	m.p.machine.wait()
	if err == nil {
		m.p.w.rec.add(Event{Kind: SessionEnded, Client: m.p.index, Session: m.id, Since: m.p.w.line.endedAt(m.id)})
	}
	return err
}
