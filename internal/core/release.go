// SPDX-License-Identifier: Apache-2.0

package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
	"github.com/fencelock/fencelock/internal/timing"
)

// releaseKind is what becomes of a grant when its last lease was unlocked.
type releaseKind uint8

const (
	keepAsIs    releaseKind = iota // nothing is left to do
	handOff                        // a local waiter gets it
	beIdle                         // it lingers when its last lease has ended for good
	backToStore                    // the store gets it back
)

// release is what is left to do after the last lease on a grant was unlocked.
type release struct {
	kind releaseKind
	g    *grant
	by   *Lease // whose unlock it is; not for handOff
	// next gets lease: for handOff.
	next  *waiter
	lease *Lease
	now   clock.Instant // of the unlock: for beIdle
	// what is withdrawn: for backToStore, like the others below.
	what driver.Withdrawal
	q    *queue // nil, or the queue to hand off once the store has answered
	// asked, if not nil, is closed when a request for notices has ended.
	asked <-chan struct{}
}

// releaseLocked decides what becomes of the grant: nothing if it has ended already.
// sh.mu must be held.
func (g *grant) releaseLocked(by *Lease, now clock.Instant) release {
	if !g.state.attached() || !g.s.state.live() {
		return release{}
	}
	q := g.q
	if g.keepFor == 0 && q != nil && g.mayHandOffLocked(q, now) {
		return release{kind: handOff, g: g, next: q.pop(), lease: g.newLeaseLocked(context.Background(), g.nextTokenLocked(), now)}
	}
	if g.mayLingerLocked(now) {
		if by.held == nil && !g.s.c.watched() {
			g.lingerLocked(now) // no context and no hook is notified before the next lock
			return release{}
		}
		g.s.users++
		return release{kind: beIdle, g: g, by: by, now: now}
	}
	r := release{kind: backToStore, g: g, by: by}
	if w := g.s.watches[g.claim.Seq]; w != nil && g.attempts > 0 {
		r.asked = w.asked
	}
	g.detachLocked()
	g.s.users++
	by.state.set(leaseReleasing)
	r.what = g.withdrawalLocked()
	if q != nil && q.exclusive == g {
		q.state, q.exclusive = queueReturning, nil
		r.q = q
	}
	return r
}

// mayHandOffLocked reports whether the grant may go to the next local waiter, without a
// round trip and with a fresh token: a bounded number of times and for a bounded
// time, so that waiters of other processes are served. sh.mu must be held.
func (g *grant) mayHandOffLocked(q *queue, now clock.Instant) bool {
	t, opts := g.claim.Terms, &g.s.c.opts
	return q.exclusive == g && q.first != nil && sameTerms(t, q.first.terms) &&
		g.tokenLeft() && now.Sub(g.granted) < opts.LocalHandoff &&
		t.MinHold == 0 && t.MaxHold == 0 && t.Reentry == ""
}

// finish hands the grant off or gives it back. A zero r is fine.
func (r *release) finish(ctx context.Context) error {
	switch r.kind {
	case keepAsIs:
		return nil
	case handOff:
		// The event comes first: the next holder may be done with the lease
		// before this goroutine runs again.
		r.lease.announce(LeaseHandedOff, 0)
		r.next.ready <- turn{lease: r.lease}
		return nil
	case beIdle:
		return r.lingerOrRelease(ctx)
	}
	ctx = r.by.bounding(ctx)
	if r.asked != nil {
		r.awaitNotices(ctx)
	}
	err := r.g.giveBack(ctx, r.what)
	r.over(err)
	return err
}

// noticePatience is how long an unlock waits for the answer to a request for notices: longer
// than a round trip takes.
const noticePatience = 50 * time.Millisecond

// awaitNotices waits for a request for notices that was sent a moment before the unlock. The
// withdrawal would have to leave a tombstone, which the store keeps as long as the session.
func (r *release) awaitNotices(ctx context.Context) {
	t := time.NewTimer(noticePatience)
	defer t.Stop()
	select {
	case <-r.asked:
	case <-t.C:
	case <-ctx.Done():
	}
	r.g.s.sh.mu.Lock()
	r.what = r.g.withdrawalLocked()
	r.g.s.sh.mu.Unlock()
}

// over takes the answer to the withdrawal: the session has a user less, callers
// that unlock the lease again get the answer, and the queue goes on.
func (r *release) over(err error) {
	s, sh := r.g.s, r.g.s.sh
	sh.mu.Lock()
	s.leftLocked()
	r.by.answeredLocked(err)
	var stale *sentClaim
	if r.q != nil {
		stale = sh.handOffLocked(r.q)
	}
	sh.mu.Unlock()
	stale.withdraw()
}

// abandon is for a panic of a hook or of the store in between: the goroutine
// will not come back, and the grant must not stay.
func (r *release) abandon() {
	switch r.kind {
	case keepAsIs:
	case handOff:
		r.lease.announceAfterPanic()
		r.next.ready <- turn{lease: r.lease}
	case beIdle:
		r.g.giveUpLingering()
	case backToStore:
		r.g.s.sh.mu.Lock()
		r.g.queueWithdrawalLocked()
		r.g.s.sh.mu.Unlock()
		r.over(r.g.s.c.fail(r.g.unconfirmed(context.Background(), errPanicked)))
	}
}

// errPanicked is why an unlock was not confirmed.
var errPanicked = errors.New("a hook or the store panicked")

// giveBack withdraws a grant on behalf of Unlock.
func (g *grant) giveBack(ctx context.Context, w driver.Withdrawal) error {
	s := g.s
	found, moved, err := g.withdraw(ctx, w)
	switch {
	case err == nil && found == driver.WasBroken:
		g.acknowledged()
		return s.c.fail(Failure{Op: "unlock", Name: w.Name, Err: s.c.lost(ForceUnlocked)})
	case err == nil && found == driver.WasAbsent && w.KeepFor > 0 && !g.marked(ctx):
		g.acknowledged()
		return s.c.fail(Failure{Op: "unlock", Name: w.Name, Err: s.c.lost(StoreReset)})
	case err == nil && found == driver.WasAbsent && w.KeepFor == 0 && moved:
		// The store lost its data, and was asked before the claim was reclaimed. Without a
		// grace period another process may have had the lock since. Nothing is left to be
		// repeated: a reclaim that is under way withdraws the claim again.
		g.acknowledged()
		f := g.unconfirmed(ctx, driver.ErrReset)
		f.Hint = "the lock is free of this lease; unless the store has a grace period, another process may have acquired it before the unlock"
		return s.c.fail(f)
	case err == nil:
		// Absent is fine: the claim was trusted to this moment, so the
		// withdrawal was only executed twice, as client libraries do that send
		// again. It hides no break: a broken claim is found broken each time.
		g.acknowledged()
		return nil
	case s.endIfGone(err):
		return g.gone(w)
	}
	s.sh.mu.Lock()
	g.queueWithdrawalLocked()
	ended := s.cause // nil while it is repeated
	s.sh.mu.Unlock()
	switch {
	case ended == nil:
		return s.c.fail(g.unconfirmed(ctx, err))
	case w.KeepFor == 0:
		f := g.unconfirmed(ctx, err)
		f.Hint = "its session has ended, and the lock with it"
		return s.c.fail(f)
	case !errors.Is(ended, ErrLost):
		ended = s.c.lost(Unmarked, ended)
	}
	// Nothing repeats it, so the mark may never be left.
	return s.c.fail(Failure{Op: "unlock", Name: w.Name, Err: chain(ended, Unavailable(err))})
}

// gone is what Unlock returns when the session had ended before the withdrawal.
func (g *grant) gone(w driver.Withdrawal) error {
	why := context.Cause(g.s.ctx)
	if !errors.Is(why, ErrLost) { // Close has given it back
		if w.KeepFor == 0 {
			return nil
		}
		why = g.s.c.lost(Unmarked, why) // and no mark stays
	}
	return g.s.c.fail(Failure{Op: "unlock", Name: w.Name, Err: why})
}

// marked reports whether the mark of a claim that is absent is in the store. If
// the store was reset and did not give the claim back, either an earlier try left
// the mark, or the data is gone.
func (g *grant) marked(ctx context.Context) bool {
	s := g.s
	s.sh.mu.Lock()
	notReclaimed := g.notReclaimed
	s.sh.mu.Unlock()
	if !notReclaimed {
		return true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.c.opts.CallTimeout)
	defer cancel()
	st, err := s.c.store.Inspect(ctx, g.claim.Name)
	return err == nil && slices.ContainsFunc(st.Holders, func(h driver.Holder) bool { return h.Kept && h.Token.Base() == g.token.Base() })
}

// withdraw makes the call. If a mark is to be left and the store was reset, it
// goes on while the session reclaims, as long as a call may take: the caller then
// knows that the mark is there. moved is that of callWithdraw.
func (g *grant) withdraw(ctx context.Context, w driver.Withdrawal) (found driver.Removed, moved bool, err error) {
	s := g.s
	end := s.c.clock.Sent().Add(s.c.opts.CallTimeout)
	for failures := 1; ; failures++ {
		found, moved, err = s.callWithdraw(ctx, w, g)
		if errors.Is(err, driver.ErrReset) {
			s.renewNow()
		} else if err != errNotReclaimed {
			return found, moved, err
		}
		pause := timing.Backoff(failures, s.trusted()/100, s.trusted()/12, rand.Float64())
		if w.KeepFor == 0 || s.c.clock.Sent().Add(pause) >= end || !Sleep(s.ctx, pause) || ctx.Err() != nil {
			return found, moved, err
		}
	}
}

// waitOver returns why a caller waits no longer, or nil. A connection that was given the
// context's deadline may time out before the context's own timer fires.
func waitOver(ctx context.Context) error {
	if end, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(end) {
		return context.DeadlineExceeded
	}
	return CtxError(ctx)
}

// unconfirmed is what Unlock returns when the store did not answer, or not before ctx
// ended.
func (g *grant) unconfirmed(ctx context.Context, err error) Failure {
	if over := waitOver(ctx); over != nil {
		err = fmt.Errorf("%w, but not confirmed yet: %w", ErrReleased, over)
	} else {
		err = fmt.Errorf("%w, but not confirmed: %w: %w", ErrReleased, ErrUnavailable, err)
	}
	return Failure{Op: "unlock", Name: g.claim.Name, Err: err,
		Hint: "it is repeated in the background and ends with the session at the latest"}
}

// acknowledged ends the grant.
func (g *grant) acknowledged() {
	g.s.sh.mu.Lock()
	g.endedLocked()
	g.s.sh.mu.Unlock()
}

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
	f := Failure{Op: "unlock", Name: l.Name(), Err: l.g.s.c.lost(Unmarked, cmp.Or(err, ErrReleased))}
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
