// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/core"
)

// Mutex is a lock that one holder has at a time. It is a cheap handle without
// state: make it where it is needed, as often as needed. It is safe for concurrent
// use, and handles of one name are the same lock.
type Mutex struct{ h handle }

// Mutex returns a handle for the lock of that name. It does no I/O; a bad name
// or option is reported by the first acquisition.
func (c *Client) Mutex(name string, opts ...LockOption) *Mutex {
	return &Mutex{c.handle(name, driver.Terms{Mode: driver.Exclusive, Weight: 1}, opts)}
}

// sole makes the handle one of a kind that promises one holder at a time: it does not
// re-enter, and ReentrantAs and Linger are refused.
func (m *Mutex) sole(kind string) *Mutex {
	m.h.sole = true
	if m.h.err == nil && m.h.config.terms.Reentry != "" {
		m.h.err = fmt.Errorf("fencelock: %q: ReentrantAs lets several hold the lock with one token; %s must have one: leave it out", m.h.name, kind)
	}
	if m.h.err == nil && m.h.config.terms.Linger > 0 {
		m.h.err = fmt.Errorf("fencelock: %q: Linger keeps a lock after it was unlocked; %s must give it back: leave it out", m.h.name, kind)
	}
	return m
}

// Lock waits for the lock and returns a lease, which the caller must unlock. ctx bounds the
// waiting only: the lease does not end with ctx.
//
// Waiters are served in the order in which they called Lock, within the client and, if
// [Guarantees.Fair] is set, between processes. The error is that of ctx if ctx ends first (with
// [ErrGrace], too, in a grace period), [ErrUnavailable] if the store does not answer for
// [Options.StoreTimeout], or [ErrClosed]. A call that fails leaves nothing behind.
//
// Under the context of a lease of the same name Lock re-enters: the same token, no round trip, and
// the lock is free when both leases are unlocked.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) { return m.h.acquire(ctx, false) }

// TryLock asks once and does not wait for a holder: if there is one, the error is
// a *BusyError that names it, and errors.Is(err, [ErrBusy]) holds. In a grace period of the
// store the error is a *GraceError, and errors.Is(err, [ErrGrace]) holds. If the store does not
// answer, the error wraps [ErrUnavailable]. A lock that lingers in another process is asked
// for and waited for, see Linger. The caller must unlock the lease.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) { return m.h.acquire(ctx, true) }

// Do runs fn while holding the lock. It waits for the lock as long as ctx allows.
// fn's context ends, with the reason as its cause, when ctx ends or the lease is
// lost; fn should then stop. Do unlocks when fn returns or panics.
//
// If the lock was not acquired, fn is not called and the error is that of Lock. Otherwise
// the error joins fn's and the unlock's: errors.Is(err, [ErrLost]) means that the lease did
// not last to the end of fn, and errors.Is(err, [ErrReleased]) that fn has run and only the
// confirmation of the unlock is missing.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, l *Lease) error) error {
	return m.h.do(ctx, fn)
}

// handle is what Mutex, RWMutex and Semaphore have in common: a name and what
// to ask for. It does no I/O.
type handle struct {
	c      *Client
	shard  *core.Shard
	name   string
	config *config
	sole   bool // it does not re-enter
	// outlast is set if a try waits for the end of a grace period.
	outlast bool
	err     error
}

// handle makes a handle; want is what the kind of lock asks for.
func (c *Client) handle(name string, want driver.Terms, opts []LockOption) handle {
	if err := checkName(name); err != nil {
		return handle{c: c, name: name, err: err}
	}
	if len(opts) == 0 && want == (driver.Terms{Weight: 1}) {
		return handle{c: c, shard: c.core.Shard(name), name: name, config: c.plain}
	}
	rec := *c.record
	want.Record = &rec
	w := &config{terms: want}
	for _, opt := range opts {
		if opt.apply == nil {
			continue
		}
		if err := opt.apply(w); err != nil {
			return handle{c: c, name: name, err: fmt.Errorf("fencelock: %q: %w", name, err)}
		}
	}
	return handle{c: c, shard: c.core.Shard(name), name: name, config: w, err: c.supported(name, w)}
}

// supported returns an error, before any call, for what the store cannot do.
func (c *Client) supported(name string, w *config) error {
	missing := ""
	switch t := &w.terms; {
	case t.Mode == driver.Shared && !c.caps.Shared:
		missing = "shared and weighted locks"
	case t.Limit > 0 && c.caps.NoLimits:
		missing = "semaphores"
	case t.Reentry != "" && !c.caps.Reentry:
		missing = "ReentrantAs"
	case (t.MinHold > 0 || t.MaxHold > 0) && !c.caps.Hold:
		missing = "MinHold and MaxHold"
	case t.Linger > 0 && (t.MinHold > 0 || t.MaxHold > 0 || t.Reentry != ""):
		return fmt.Errorf("fencelock: %q: Linger does not go with MinHold, MaxHold or ReentrantAs, which fix how long the lock is held: leave one out", name)
	case t.Linger > c.opts.TTL:
		return fmt.Errorf("fencelock: %q: Linger(%v) is longer than Options.TTL (%v): a lost notice would cost others more than a dead process", name, t.Linger, c.opts.TTL)
	case t.Linger > 0 && !c.caps.Linger:
		missing = "Linger"
	case t.MaxHold > 0 && t.MinHold > t.MaxHold:
		return fmt.Errorf("fencelock: %q: MinHold(%v) is longer than the lease may be (%v)", name, t.MinHold, t.MaxHold)
	default:
		if err := checkRecord(t.Record); err != nil {
			return fmt.Errorf("fencelock: %q: %w", name, err)
		}
		return nil
	}
	return &Error{Op: "lock", Name: name, Server: c.caps.Engine, Err: ErrUnsupported,
		Hint: "this store has no " + missing}
}

// terms returns what to send for an acquisition under ctx.
func (h *handle) terms(ctx context.Context) *driver.Terms {
	parent := h.c.opts.Hooks.TraceParent
	if parent == nil {
		return &h.config.terms
	}
	t, rec := h.config.terms, *h.config.terms.Record
	rec.Trace = parent(ctx)
	if len(rec.Trace) > maxTrace {
		rec.Trace = ""
	}
	t.Record = &rec
	return &t
}

// acquire gets a lease for the handle, waiting for it unless try is set. How it waits is
// in internal/core/acquisition.go.
func (h *handle) acquire(ctx context.Context, try bool) (*Lease, error) {
	how := core.How{Try: try, Sole: h.sole, Outlast: h.outlast}
	if h.err != nil {
		return nil, h.refused(how)
	}
	hooks := &h.c.opts.Hooks
	if hooks.AcquireStart == nil && hooks.AcquireEnd == nil {
		l, err := h.shard.Acquire(ctx, h.name, h.terms(ctx), how)
		return lease(l), h.named(err, how)
	}
	start := AcquireStart{Name: h.name, Mode: h.config.terms.Mode, Server: h.c.caps.Engine, Try: try}
	if hooks.AcquireStart != nil {
		ctx = hooks.AcquireStart(ctx, start)
	}
	began := time.Now()
	l, err := h.shard.Acquire(ctx, h.name, h.terms(ctx), how)
	err = h.named(err, how)
	returned := false
	defer func() {
		if !returned && l != nil {
			l.Abandon() // the hook panicked: the caller will never have it
		}
	}()
	if hooks.AcquireEnd != nil {
		hooks.AcquireEnd(ctx, AcquireEnd{AcquireStart: start, Lease: lease(l), Waited: time.Since(began), Err: err})
	}
	returned = true
	return lease(l), err
}

// named returns the error of an acquisition. The core names the lock in every error but that
// of a closed client.
func (h *handle) named(err error, how core.How) error {
	if err != ErrClosed { // as it is, not wrapped
		return err
	}
	return &Error{Op: how.Op(), Name: h.name, Server: h.c.caps.Engine, Err: err}
}

// refused returns the error of a handle that cannot acquire, with the operation that was
// tried.
func (h *handle) refused(how core.How) error {
	if e, ok := h.err.(*Error); ok {
		named := *e
		named.Op = how.Op()
		return &named
	}
	return h.err
}

// do acquires the lock and runs fn under it.
func (h *handle) do(ctx context.Context, fn func(ctx context.Context, l *Lease) error) error {
	l, err := h.acquire(ctx, false)
	if err != nil {
		return err
	}
	return l.do(ctx, fn)
}
