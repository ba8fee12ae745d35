// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// openPatience is how long an Open waits at least for members that did not answer before: one
// of them may answer now that another list is in use. For the others it waits until they
// answer, or are away: a third of the TTL and half of the time of the Open at most.
const openPatience = 50 * time.Millisecond

// register keeps this process in the markers of all members while it has a session on one.
// It has no lasting goroutine: the keep-alives of the sessions drive it.
//
// No lease outlives the marker of its member. A process that is cut off from all members must have
// lost its leases before a process with another list finds no marker. So a session is opened and kept
// alive only after the marker was, unless that is sure to live for longer:
//
//	marker    |────── kept ──────────────────────────|
//	session      |── kept ──────────────────|
//
// To keep the markers now and then, whichever session comes first, would not do: a session that is
// kept a little later ends a little later. The other members are kept so; their markers are for
// processes that come to them, and not for the leases here.
type register struct {
	view    view
	entries []*entry
	maxTTL  time.Duration // of all members, 0 for any
	// adopting holds a value while the process goes over to the list after a change.
	adopting chan struct{}

	mu       sync.Mutex
	sessions map[sessionKey]struct{}
	alive    context.Context // of the rounds; it ends when no session is left
	end      context.CancelFunc
	ttl      time.Duration // the longest of the sessions
	due      time.Time     // of the next keep-alive of the markers
	adopted  bool          // the list after the change is in use

	refused atomic.Pointer[error] // another list is in use
}

func newRegister(members []Member, maxTTL time.Duration) *register {
	r := &register{view: view{before(members), after(members)}, maxTTL: maxTTL, sessions: map[sessionKey]struct{}{}, adopting: make(chan struct{}, 1)}
	r.adopted = !r.view.changing()
	for i := range members {
		r.entries = append(r.entries, newEntry(&members[i]))
	}
	return r
}

// entry returns the entry of a member.
func (r *register) entry(m *Member) *entry {
	for _, e := range r.entries {
		if e.m == m {
			return e
		}
	}
	return nil
}

// enter marks the members for a session that is about to be opened for names at a place.
// Only the member of the names must answer; the others are marked later if they are away.
// If the session is not opened then, undo removes it, unless it was open before.
func (r *register) enter(ctx context.Context, key sessionKey, ttl time.Duration, p place) (undo func(), err error) {
	began := time.Now()
	undo = func() {}
	r.mu.Lock()
	if _, known := r.sessions[key]; !known {
		undo = func() { r.discard(key) }
	}
	r.sessions[key] = struct{}{}
	if r.alive == nil {
		r.alive, r.end = context.WithCancel(context.Background())
	}
	r.ttl = max(r.ttl, ttl)
	fresh := r.refused.Swap(nil) == nil && time.Now().Before(r.due) && r.allMarked()
	r.mu.Unlock()
	if !fresh {
		err = r.await(ctx, ttl, r.entry(p.to), r.round(func(*entry) bool { return true }))
	}
	if err == nil && p.moves() {
		err = r.adopt(ctx)
	}
	if err == nil {
		err = r.cover(ctx, r.entry(p.to), began.Add(ttl))
	}
	return undo, err
}

func (r *register) allMarked() bool {
	for _, e := range r.entries {
		if !e.marked.Load() {
			return false
		}
	}
	return true
}

// answer is what came of a round at one member.
type answer struct {
	e   *entry
	err error
}

// markerTTL is how long a marker lives: longer than the leases, so that sessions at a member that are
// kept one shortly after the other keep its marker once.
func (r *register) markerTTL() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ttl := r.ttl + r.ttl/8; r.maxTTL == 0 || ttl < r.maxTTL {
		return ttl
	}
	return r.maxTTL
}

// round keeps the markers of some members, each in a goroutine that ends by itself.
func (r *register) round(which func(*entry) bool) <-chan answer {
	answers := make(chan answer, len(r.entries))
	r.mu.Lock()
	ttl, alive := r.ttl, r.alive
	if alive == nil { // the last session has just ended
		r.mu.Unlock()
		return answers
	}
	r.due = time.Now().Add(ttl / 4)
	r.mu.Unlock()
	for _, e := range r.entries {
		if !which(e) {
			continue
		}
		go func() {
			bound, cancel := context.WithTimeout(alive, ttl/3)
			defer cancel()
			answers <- answer{e, r.keep(bound, e)}
		}()
	}
	return answers
}

// errNoSession is why no marker is kept: this process has no session that it would be for.
var errNoSession = errors.New("shard: the last session has ended")

// keep keeps the marker of one member and takes note of another list.
func (r *register) keep(ctx context.Context, e *entry) error {
	want := r.view.between()
	if r.hasAdopted() {
		want = r.view.adopted()
	}
	ttl := r.markerTTL()
	if ttl == 0 {
		return errNoSession // since the round began, or before a call of a session that has ended
	}
	err := e.keep(ctx, ttl, want)
	if errors.Is(err, driver.ErrRefused) {
		r.refused.Store(&err)
	}
	return err
}

// forOthers is how long an Open waits for members other than that of the names: half of the time that
// it has left, because the rest is for the session.
func forOthers(ctx context.Context, ttl time.Duration) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(time.Until(end)/2, ttl/3)
	}
	return ttl / 3
}

// await waits until the member of the names is marked and the others have answered. For those
// that were away before it waits only as long again.
func (r *register) await(ctx context.Context, ttl time.Duration, own *entry, answers <-chan answer) error {
	began := time.Now()
	waiting := map[*entry]bool{}
	for _, e := range r.entries {
		waiting[e] = true
	}
	var patience <-chan time.Time
	half, late := time.After(forOthers(ctx, ttl)), false
	for len(waiting) > 0 && (!late || waiting[own]) {
		select {
		case a := <-answers:
			delete(waiting, a.e)
			switch {
			case errors.Is(a.err, driver.ErrRefused):
				return a.err
			case a.e == own && a.err != nil && !errors.Is(a.err, errGrace):
				return errAway(own, a.err)
			}
		case <-patience:
			return nil
		case <-half:
			late = true
		case <-ctx.Done():
			return fmt.Errorf("shard: open: %w", ctx.Err())
		}
		if patience == nil && !waiting[own] && allAway(waiting) {
			patience = time.After(max(time.Since(began), openPatience))
		}
	}
	return nil
}

func allAway(entries map[*entry]bool) bool {
	for e := range entries {
		if !e.away.Load() {
			return false
		}
	}
	return true
}

// errAway is the answer when a member cannot be marked. What the member answered is text
// only: it is about the marker's session and not about the caller's.
func errAway(e *entry, err error) error {
	return fmt.Errorf("shard: member %s cannot be marked: %v: %w", e.m.Name, err, driver.ErrUnavailable)
}

// adopt goes over to the list after the change, which is possible when no process uses the
// one before it. A member that leaves may be down; every other one must agree.
func (r *register) adopt(ctx context.Context) error {
	select {
	case r.adopting <- struct{}{}:
		defer func() { <-r.adopting }()
	case <-ctx.Done():
		return fmt.Errorf("shard: open: %w", ctx.Err())
	}
	if r.hasAdopted() {
		return nil
	}
	r.mu.Lock()
	ttl := r.ttl
	r.mu.Unlock()
	errs := make([]error, len(r.entries))
	r.each(func(i int, e *entry) {
		bound, cancel := context.WithTimeout(ctx, forOthers(ctx, ttl))
		defer cancel()
		errs[i] = e.keep(bound, r.markerTTL(), r.view.adopted())
	})
	for i, e := range r.entries {
		if err := r.notAdopted(e, errs[i]); err != nil {
			r.drop(ctx, ttl, listMarker)
			return err
		}
	}
	r.mu.Lock()
	r.adopted = true
	r.mu.Unlock()
	r.drop(ctx, ttl, changeMarker)
	return nil
}

// drop gives a mark back at all members.
func (r *register) drop(ctx context.Context, ttl time.Duration, name string) {
	bound, cancel := context.WithTimeout(ctx, forOthers(ctx, ttl))
	defer cancel()
	r.each(func(_ int, e *entry) { e.drop(bound, name) })
}

// notAdopted returns why one member keeps this process from the next list, or nil.
func (r *register) notAdopted(e *entry, err error) error {
	var c *conflict
	switch {
	case err == nil:
		return nil
	case errors.As(err, &c) && c.holder.Reentry == r.view.before.id():
		return errStillUsed(e.m.Name, c.holder)
	case errors.As(err, &c):
		return err
	case e.m.Change == Leaves:
		return nil
	}
	return errAway(e, err)
}

// each calls a function for all members at once.
func (r *register) each(f func(i int, e *entry)) {
	var all sync.WaitGroup
	for i, e := range r.entries {
		all.Go(func() { f(i, e) })
	}
	all.Wait()
}

func (r *register) hasAdopted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.adopted
}

// tick keeps the markers alive if it is time, without waiting, and returns the refusal if another list was
// found. It leaves out the member of the caller, who keeps its marker, and those that were just kept.
func (r *register) tick(own *entry) error {
	if err := r.refused.Load(); err != nil {
		return *err
	}
	now := time.Now()
	r.mu.Lock()
	due, kept := !now.Before(r.due), now.Add(r.ttl)
	r.mu.Unlock()
	if due {
		r.round(func(e *entry) bool { return e != own && !e.outlives(kept) })
	}
	return nil
}

// cover returns when the marker of a member outlives a lease there, or the member is in its grace period.
func (r *register) cover(ctx context.Context, e *entry, lease time.Time) error {
	if e.outlives(lease) {
		return nil
	}
	return r.mark(ctx, e)
}

// ready returns when a member has our marker, or is in its grace period, unless another list
// was found.
func (r *register) ready(ctx context.Context, e *entry) error {
	if err := r.refused.Load(); err != nil {
		return *err
	}
	if e.marked.Load() {
		return nil
	}
	return r.mark(ctx, e)
}

// mark keeps the marker of a member that must have it.
func (r *register) mark(ctx context.Context, e *entry) error {
	err := r.keep(ctx, e)
	switch {
	case err == nil || errors.Is(err, errGrace): // in its grace period it grants nothing
		return nil
	case errors.Is(err, driver.ErrRefused):
		return err
	case errors.Is(err, errNoSession):
		return fmt.Errorf("%w: %w", err, driver.ErrUnavailable)
	case ctx.Err() != nil:
		return fmt.Errorf("shard: member %s: %w", e.m.Name, ctx.Err())
	}
	return errAway(e, err)
}

// leave removes a session. The last one ends the markers: it waits for them as long as its
// own Close took twice over, and at least a little. A marker that stays ends by its TTL.
func (r *register) leave(ctx context.Context, key sessionKey, took time.Duration) {
	ended := r.discard(key)
	patience := time.NewTimer(max(2*took, openPatience))
	defer patience.Stop()
	select {
	case <-ended:
	case <-patience.C:
	case <-ctx.Done():
	}
}

// discard removes a session, and ends the markers with the last one. The channel is closed
// when they have ended.
func (r *register) discard(key sessionKey) <-chan struct{} {
	ended := make(chan struct{})
	if !r.remove(key) {
		close(ended)
		return ended
	}
	go func() {
		defer close(ended)
		ctx, cancel := context.WithTimeout(context.Background(), abandonPatience)
		defer cancel()
		r.each(func(_ int, e *entry) { e.close(ctx, r.idle) })
	}()
	return ended
}

// remove removes a session and reports whether it was the last one.
func (r *register) remove(key sessionKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, key)
	if len(r.sessions) > 0 || r.alive == nil {
		return false
	}
	r.end()
	r.alive, r.end = nil, nil
	r.adopted, r.due, r.ttl = !r.view.changing(), time.Time{}, 0
	return true
}

func (r *register) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions) == 0
}
