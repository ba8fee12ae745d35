// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// meter sits between a client and its network and notices a client that calls
// without a pause.
type meter struct {
	driver.Store
	pulse *pulse
}

// pulse counts the calls of a client at one instant of the fake clock, which
// stands still as long as somebody is busy: whoever calls without a pause would
// keep it standing for ever.
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
	if p.calls++; p.calls > maxPulse {
		p.spins = true
		return fmt.Errorf("sim: %d calls at one instant: %w", p.calls, driver.ErrRefused)
	}
	return nil
}

// spun says whether the client ever called without end.
func (p *pulse) spun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spins
}

// Open implements driver.Store.
func (m *meter) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Life, error) {
	if err := m.pulse.beat(); err != nil {
		return nil, driver.Life{}, err
	}
	s, life, err := m.Store.Open(ctx, req)
	if err != nil {
		return nil, life, err
	}
	return &metered{s, m.pulse}, life, nil
}

type metered struct {
	driver.Session
	pulse *pulse
}

// Attempt implements driver.Session.
func (m *metered) Attempt(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if err := m.pulse.beat(); err != nil {
		return driver.Outcome{}, err
	}
	return m.Session.Attempt(ctx, c)
}

// Await implements driver.Session.
func (m *metered) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if err := m.pulse.beat(); err != nil {
		return driver.Outcome{}, err
	}
	return m.Session.Await(ctx, c)
}

// Withdraw implements driver.Session.
func (m *metered) Withdraw(ctx context.Context, w driver.Withdrawal) (driver.Removed, error) {
	if err := m.pulse.beat(); err != nil {
		return driver.WasAbsent, err
	}
	return m.Session.Withdraw(ctx, w)
}

// KeepAlive implements driver.Session.
func (m *metered) KeepAlive(ctx context.Context) (driver.Life, error) {
	if err := m.pulse.beat(); err != nil {
		return driver.Life{}, err
	}
	return m.Session.KeepAlive(ctx)
}
