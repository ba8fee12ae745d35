// SPDX-License-Identifier: Apache-2.0

package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Unlock gives the lease back; the lock stays taken for keep, without a holder. If
// other leases stand on the same grant, the last of them leaves it taken.
func (l *Lease) Unlock(ctx context.Context, keep time.Duration) error {
	if ctx == nil {
		ctx = context.Background() // a lock that stays forever would be worse
	}
	g := l.g
	g.s.sh.mu.Lock()
	if l.state.get() != leaseHeld {
		g.s.sh.mu.Unlock()
		return l.unmarked(l.unlockAgain(ctx), keep)
	}
	var rest release
	kind, now := LeaseReleased, g.s.c.clock.Recent()
	if now >= l.deadline() {
		kind, l.cause = LeaseLost, l.overdueLocked()
		l.state.set(leaseLost)
	} else {
		l.cause = ErrReleased
		l.state.set(leaseReleased)
		g.keepFor = max(g.keepFor, keep)
	}
	cause, held := l.cause, l.held
	g.dropLeaseLocked(l)
	if g.leases == nil && kind == LeaseReleased {
		rest = g.releaseLocked(l, now)
	}
	g.s.sh.mu.Unlock()
	finished := false
	defer func() {
		if !finished {
			rest.abandon()
		}
	}()
	// Work under the lease's context is notified before the next holder
	// is let in.
	if held != nil {
		held.cancel(cause)
	}
	l.emit(kind, cause)
	err := rest.finish(ctx)
	finished = true
	if kind == LeaseLost {
		return cause
	}
	return err
}

// bounding returns the context that bounds the wait for the store's confirmation: ctx,
// or one without its end.
func (l *Lease) bounding(ctx context.Context) context.Context {
	if ctx.Err() != nil {
		return context.WithoutCancel(ctx)
	}
	if carries(ctx, l) {
		// It ends by this very unlock, and not always before the call is made: what
		// WithContext returned is canceled by another goroutine.
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// carries reports whether the lease is among those of the context.
func carries(ctx context.Context, l *Lease) bool {
	if !l.carried.Load() {
		return false // without reading the values of a context
	}
	for held := range Leases(ctx) {
		if held == l {
			return true
		}
	}
	return false
}

// answeredLocked takes the answer of the unlock for those who unlock again. sh.mu must
// be held.
func (l *Lease) answeredLocked(err error) {
	l.state.set(leaseReleased)
	if err != nil {
		l.cause = err
	}
	if l.waiting != nil {
		close(l.waiting)
	}
}

// unlockAgain returns what the first Unlock returned, or will return.
func (l *Lease) unlockAgain(ctx context.Context) error {
	l.g.s.sh.mu.Lock()
	defer l.g.s.sh.mu.Unlock()
	if l.state.get() == leaseReleasing {
		if l.waiting == nil {
			l.waiting = make(chan struct{})
		}
		if !l.awaitFirstUnlock(ctx) {
			return l.g.s.c.fail(Failure{Op: "unlock", Name: l.Name(),
				Err: fmt.Errorf("%w, but not confirmed yet: %w", ErrReleased, CtxError(ctx))})
		}
	}
	if l.cause == ErrReleased {
		return nil
	}
	return l.cause
}

// unmarked returns the answer to an unlock that came too late to leave the lock taken for
// keep: the lease was unlocked before, lost, or ended by Close. If keep is not zero, that is a
// loss.
func (l *Lease) unmarked(err error, keep time.Duration) error {
	if keep == 0 || errors.Is(err, ErrLost) {
		return err
	}
	f := Failure{Op: "unlock", Name: l.Name(), Err: lost(cmp.Or(err, ErrReleased))}
	if l.unlocked() {
		f.Hint = "the function unlocked its lease, so the occurrence has no mark and may run again: leave the unlock to Once"
	}
	return l.g.s.c.fail(f)
}

// awaitFirstUnlock waits for the first Unlock and reports whether ctx allowed it.
// sh.mu must be held; it is not while waiting.
func (l *Lease) awaitFirstUnlock(ctx context.Context) bool {
	first := l.waiting
	l.g.s.sh.mu.Unlock()
	defer l.g.s.sh.mu.Lock()
	select {
	case <-first:
		return true
	case <-ctx.Done():
		return false
	}
}

// Abandon gives the lease back without a caller: a hook panicked before the caller
// had the lease. It makes no call. If hooks have seen the beginning, they see the end.
func (l *Lease) Abandon() {
	g := l.g
	g.s.sh.mu.Lock()
	if l.state.get() != leaseHeld {
		g.s.sh.mu.Unlock()
		return
	}
	l.cause = ErrReleased
	l.state.set(leaseReleased)
	announced, held := l.announced, l.held
	g.dropLeaseLocked(l)
	if g.leases == nil && g.detachLocked() {
		g.queueWithdrawalLocked()
		defer g.freeQueue() // after the event, even if the hook ends the goroutine
	}
	g.s.sh.mu.Unlock()
	if held != nil { // a hook may have asked for it
		held.cancel(ErrReleased)
	}
	if announced {
		guarded(func() { l.emit(LeaseReleased, nil) })
	}
}

// dropLeaseLocked takes a lease off the grant. sh.mu must be held.
func (g *grant) dropLeaseLocked(l *Lease) {
	if l.prev == nil {
		g.leases = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next != nil {
		l.next.prev = l.prev
	}
	l.prev, l.next = nil, nil
	g.s.watches[g.claim.Seq].drop(l)
}
