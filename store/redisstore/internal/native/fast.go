// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// fast acquires and releases locks that are free with plain commands, which cost the server
// a third of what a script costs:
//
//	MULTI · LMOVE tickets lock · RPUSH lock claim · HMGET bucket marker session · SCRIPT EXISTS proof · EXEC
//	LREM lock ticket · LREM lock claim · LLEN lock
//
// The lock is held if the ticket was there and the list has no other pair, and if the replies
// show that a script would have granted it: the marker is that of the session's incarnation and
// there are no votes, the session has its generation, the claim has no mark, and the server
// knows a script that was loaded only under its run id. Anything else is decided by attempt.lua,
// which finds the claim in the list.
//
// The marks of claims are read only while the session has any, as far as this process knows: it
// sees in the session that there are some, and reads them from the next transaction on.
//
// During a grace period there are no tickets, so no transaction can grant.
//
// A release removes the ticket first. A claim without a ticket is a leftover that the next
// script removes; a ticket without a claim would become the ticket of a claim that another
// process pushes behind it when there are no tickets.
type fast struct {
	s       *session
	batcher batcher
	bucket  string
	session string // its field in the bucket
	proven  string // SHA of the script that proves the run id
	lists   string // key of a list without its name
	tickets string
	none    string       // a key that never exists
	few     int          // operations that are worth a script
	allowed bool         // the store knows every claim of the session that this process made
	calm    atomic.Bool  // a script has answered that there is no grace period
	marks   atomic.Bool  // the session had marks, in the last reply
	checked atomic.Int64 // until when the marker is known to count, in ms of the server's clock; unknown if it has to be tried
}

// unknown is the end of a check that was not read.
const unknown = math.MaxInt64

func (f *fast) init(s *session, graceOver, allowed bool) {
	f.s = s
	f.bucket, f.session, f.lists, f.tickets = s.base, "s"+s.sid, s.base+":l:", s.base+":t"
	f.none = s.base + none
	f.batcher.init(s, 1, f.call)
	f.allowed, f.few = allowed, fewPlain
	if s.store.switches.batched {
		f.few = 1
	}
	f.calm.Store(graceOver)
	f.checked.Store(unknown)
	if own := s.proof.scripts[attemptScript]; own != nil {
		f.proven = own.SHA
	}
}

// may reports whether a claim that was never sent before may be sent by plain commands.
func (f *fast) may(c *driver.Claim) bool {
	return f.allowed && f.proven != "" && c.Queue && c.Floor == 0 && !c.Lift && simple(c.Terms) && f.calm.Load() &&
		f.s.proof.done.Load() && f.s.alive.latest() < f.checked.Load() && !f.s.store.contended.has(c.Name)
}

// mayRelease reports whether a grant may be removed by plain commands: one that is waited for
// would need a script behind them.
func (f *fast) mayRelease(w driver.Withdrawal, c claim) bool {
	return c.ticket > 0 && c.element != "" && !c.wanted && c.name == w.Name && !w.Tombstone && w.KeepFor == 0 && f.proven != "" &&
		f.s.proof.done.Load() && !f.s.store.contended.has(w.Name)
}

// refillEvery is how many tickets are taken until one of the processes makes more.
const refillEvery = 512

// attempt acquires the lock of a claim that was never sent before, and notes what became of it.
func (f *fast) attempt(ctx context.Context, c *driver.Claim, element string) (ticket int64, got result, err error) {
	ticket, got, err = f.acquire(ctx, c.Name, element)
	switch {
	case errors.Is(err, driver.ErrUnknown):
		f.s.claims.doubt(c.Seq)
	case err != nil:
	case got == granted:
		f.s.claims.stands(c.Seq, ticket, element)
	case got == undone:
		f.s.claims.stands(c.Seq, 0, "")
	}
	return ticket, got, err
}

// acquire pushes a claim. The ticket is 0 if the claim has none, or if the replies show that
// the claim does not count.
func (f *fast) acquire(ctx context.Context, name, element string) (ticket int64, got result, err error) {
	o := newOperation()
	o.name, o.element = name, element
	if err := f.batcher.do(ctx, o); err != nil {
		switch {
		case strings.Contains(err.Error(), "EXECABORT"):
			return 0, undone, nil // the script answers why
		case strings.Contains(err.Error(), "WRONGTYPE"):
			return 0, inList, nil // of this claim or of another in the batch: the script decides about this one
		}
		return 0, inList, err
	}
	defer o.free()
	return o.ticket, o.result, nil
}

// evidence is what a transaction read beside the claims that it pushed.
type evidence struct {
	marker, session string
	proven          bool
}

// marks reports whether the session has marks.
func (e *evidence) marks() bool { return len(e.session) > 13 && e.session[13] != 0 }

// counts reports whether a script would have granted the claims of a transaction.
func (f *fast) counts(e evidence) bool {
	tail := f.s.tail
	f.marks.Store(e.marks())
	switch {
	case !e.proven:
		f.s.proof.lost()
	case len(e.marker) < 14 || e.marker[:7] != tail[7:] || e.marker[7] != 0:
	case !f.fresh(rediscmd.NumberOf(e.marker[8:14])):
	case len(e.session) < 14 || e.session[6:13] != tail[:7]:
	default:
		return f.alive()
	}
	return false
}

// fresh reports whether a marker counts until a time (checked.lua), and has it checked again before that is over.
func (f *fast) fresh(till int64) bool {
	if till == 0 {
		return false
	}
	now := f.s.alive.latest()
	f.checked.Store(till)
	// What is known of the bucket is behind a mutex, and no check counts for longer than maxCheck.
	if left := till - now; left < maxCheck.Milliseconds()/2 && left < f.s.store.seen.of(f.bucket).check().Milliseconds()/2 {
		f.refill()
	}
	return now < till && till <= now+maxCheck.Milliseconds()
}

// alive reports whether the session has not ended.
func (f *fast) alive() bool { return f.s.alive.end.Load() > f.s.alive.earliest() }

// refill makes tickets in the background.
func (f *fast) refill() {
	if !f.s.refilling.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer f.s.refilling.Store(false)
		ctx, cancel := context.WithTimeout(f.s.ctx, f.s.ttl)
		defer cancel()
		_, _ = f.s.call(ctx, touchScript, nil) // attempts make tickets, too
	}()
}

// release removes a grant, and reports whether it was there. If it was not, a script has to
// find out why.
//
// A release does not prove the run id. It removes what no other claim has, and grants nothing:
// in a server with another run id it gives back what it should, and no lock is granted there
// before a script has begun the new incarnation (package listmodel).
func (f *fast) release(ctx context.Context, name string, c claim) (bool, error) {
	o := newOperation()
	o.release, o.name, o.element, o.ticket = true, name, c.element, c.ticket
	if err := f.batcher.do(ctx, o); err != nil {
		return false, err
	}
	got := o.result
	o.free()
	if got != released && !c.lingers { // one that lingers was waited for because it was not released
		f.s.store.contended.add(name)
	}
	if got == passing {
		f.s.wake(ctx, name)
	}
	return got == released || got == passing, nil
}

// wake grants to the next in the queue. If that fails, the next finds out with its poll.
func (s *session) wake(ctx context.Context, name string) {
	reply, err := s.call(ctx, wakeScript, []string{name}, name)
	if err == nil && more(reply) {
		go s.store.walk(s.ctx, s.store.layout, name, reply)
	}
}
