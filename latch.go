// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencelock/fencelock/internal/timing"
)

// ErrNotArmed is returned by CountDown before anybody has armed the latch.
var ErrNotArmed = errors.New("fencelock: latch is not armed, call Arm first")

// CountDownLatch lets everyone wait until each of its parties has reported. The
// parties have names: a report that is repeated, because its answer was lost,
// counts once.
//
// Each party that has not reported is a kept lock, name#party, in the way of
// those who wait; a report breaks it. The kept lock name# says that all of them
// are there.
type CountDownLatch struct {
	c       *Client
	name    string
	keep    time.Duration
	parties []string
}

// CountDownLatch returns a handle. All processes must name the same parties.
// keep is how long an armed latch is kept at most; parties that have not
// reported by then count as reported. It does no I/O.
func (c *Client) CountDownLatch(name string, keep time.Duration, parties ...string) *CountDownLatch {
	return &CountDownLatch{c: c, name: name, keep: keep, parties: parties}
}

func (l *CountDownLatch) party(p string) string { return escape(l.name, "#") + "#" + p }

// mark is the lock that is kept while the latch is armed; no party has an empty
// name.
func (l *CountDownLatch) mark() string { return l.party("") }

func (l *CountDownLatch) check() error {
	if slices.Contains(l.parties, "") {
		return fmt.Errorf("fencelock: latch %q: a party has an empty name", l.name)
	}
	if l.keep <= 0 || len(l.parties) == 0 {
		return fmt.Errorf("fencelock: latch %q: keep is %v and parties are %d, both must be positive", l.name, l.keep, len(l.parties))
	}
	if !l.c.caps.Hold || !l.c.caps.Shared {
		return &Error{Op: "latch", Name: l.name, Engine: l.c.caps.Engine, Err: ErrUnsupported,
			Hint: "this store cannot keep a latch"}
	}
	return nil
}

// Arm sets the latch up. It does nothing if the latch is armed already, so every
// process may call it. It waits while another process is arming.
func (l *CountDownLatch) Arm(ctx context.Context) error {
	if err := l.check(); err != nil {
		return err
	}
	for n := 1; ; n++ {
		lease, err := l.c.Mutex(l.mark()).TryLock(ctx)
		if err == nil {
			return l.arm(ctx, lease)
		}
		var busy *BusyError
		if !errors.As(err, &busy) {
			return err
		}
		if len(busy.Holders) > 0 && busy.Holders[0].Kept {
			return nil
		}
		if !sleep(ctx, timing.Poll(n, l.c.opts.TTL, rand.Float64())) {
			return ctxError(ctx)
		}
	}
}

// arm puts every party in the way, then leaves the mark. If it fails half way,
// whoever arms next finds some of them there and goes on.
func (l *CountDownLatch) arm(ctx context.Context, armed *Lease) error {
	for _, p := range l.parties {
		if err := armed.Err(); err != nil {
			return err // somebody else may be arming now
		}
		if err := l.block(ctx, p); err != nil {
			return errors.Join(err, armed.Unlock(ctx))
		}
	}
	return armed.unlock(ctx, l.keep)
}

// block puts one party in the way, unless it is. Somebody who waited for an
// earlier latch of that name may hold it for a moment; that does not count.
func (l *CountDownLatch) block(ctx context.Context, party string) error {
	for n := 1; ; n++ {
		lease, err := l.c.Mutex(l.party(party)).TryLock(ctx)
		if err == nil {
			return lease.unlock(ctx, l.keep)
		}
		var busy *BusyError
		if !errors.As(err, &busy) || len(busy.Holders) > 0 && busy.Holders[0].Kept {
			return unlessIs(err, ErrBusy)
		}
		if !sleep(ctx, timing.Poll(n, l.c.opts.TTL, rand.Float64())) {
			return ctxError(ctx)
		}
	}
}

// CountDown reports a party. Reporting it again changes nothing.
func (l *CountDownLatch) CountDown(ctx context.Context, party string) error {
	if err := l.check(); err != nil {
		return err
	}
	if !slices.Contains(l.parties, party) {
		return fmt.Errorf("fencelock: latch %q has no party %q, it has %q", l.name, party, l.parties)
	}
	armed, err := l.armed(ctx)
	if err != nil {
		return err
	}
	if !armed {
		return fmt.Errorf("count down %q: %w", l.name, ErrNotArmed)
	}
	st, err := l.c.Inspect(ctx, l.party(party))
	if err != nil {
		return err
	}
	h := kept(st)
	if h == nil {
		return nil
	}
	if _, err := l.c.Break(ctx, l.party(party), h.Token); err != nil && !errors.Is(err, ErrNotHeld) {
		return err
	}
	return nil
}

// Wait waits until the latch is armed and every party has reported.
func (l *CountDownLatch) Wait(ctx context.Context) error {
	if err := l.check(); err != nil {
		return err
	}
	for n := 1; ; n++ {
		armed, err := l.armed(ctx)
		if err != nil {
			return err
		}
		if armed {
			break
		}
		if !sleep(ctx, timing.Poll(n, l.c.opts.TTL, rand.Float64())) {
			return ctxError(ctx)
		}
	}
	for _, p := range l.parties {
		lease, err := l.c.RWMutex(l.party(p)).RLock(ctx)
		if err != nil {
			return err
		}
		if err := lease.Unlock(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Remaining returns the parties that have not reported, in the order given.
func (l *CountDownLatch) Remaining(ctx context.Context) ([]string, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	armed, err := l.armed(ctx)
	if err != nil {
		return nil, err
	}
	var rest []string
	for _, p := range l.parties {
		st, err := l.c.Inspect(ctx, l.party(p))
		if err != nil {
			return nil, err
		}
		if !armed || kept(st) != nil {
			rest = append(rest, p)
		}
	}
	return rest, nil
}

func (l *CountDownLatch) armed(ctx context.Context) (bool, error) {
	st, err := l.c.Inspect(ctx, l.mark())
	return err == nil && kept(st) != nil, err
}
