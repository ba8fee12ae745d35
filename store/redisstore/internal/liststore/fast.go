// SPDX-License-Identifier: Apache-2.0

package liststore

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/wire"
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
	allowed bool        // the store knows every claim of the session that this process made
	calm    atomic.Bool // a script has answered that there is no grace period
	marks   atomic.Bool // the session had marks, in the last reply
}

func (f *fast) init(s *session, graceOver, allowed bool) {
	f.s = s
	f.bucket, f.session, f.lists, f.tickets = s.base, "s"+s.sid, s.base+":l:", s.base+":t"
	f.batcher.init(s, 1, f.call)
	f.allowed = allowed
	f.calm.Store(graceOver)
	if own := s.proof.scripts[attemptScript]; own != nil {
		f.proven = own.SHA
	}
}

// may reports whether a claim that was never sent before may be sent by plain commands.
func (f *fast) may(c *driver.Claim) bool {
	return f.allowed && f.proven != "" && c.Queue && c.Floor == 0 && !c.Lift && simple(c.Terms) && f.calm.Load() &&
		f.s.proof.done.Load() && !f.s.store.contended.has(c.Name)
}

// mayRelease reports whether a grant may be removed by plain commands.
func (f *fast) mayRelease(w driver.Withdrawal, c claim) bool {
	return c.ticket > 0 && c.element != "" && c.name == w.Name && !w.Tombstone && w.KeepFor == 0 && f.proven != "" &&
		f.s.proof.done.Load() && !f.s.store.contended.has(w.Name)
}

// refillEvery is how many tickets are taken until one of the processes makes more.
const refillEvery = 512

// acquire pushes a claim, and reports whether it holds the lock. The ticket is 0 if the claim
// has none, or if the replies show that the claim does not count.
func (f *fast) acquire(ctx context.Context, name, element string) (ticket int64, held bool, err error) {
	s := f.s
	o := newOperation()
	o.name, o.element = name, element
	if err := f.batcher.do(ctx, o); err != nil {
		if strings.Contains(err.Error(), "EXECABORT") {
			return 0, false, nil // nothing was done; the script answers why
		}
		return 0, false, err
	}
	defer o.free()
	if o.ticket%refillEvery == 0 {
		f.refill()
	}
	if o.length > 2 {
		s.store.contended.add(name)
	}
	f.marks.Store(o.marks)
	switch {
	case !o.proven:
		s.proof.lost()
	case len(o.marker) < 8 || o.marker[:7] != s.tail[7:] || o.marker[7] != 0:
	case len(o.session) < 14 || o.session[6:13] != s.tail[:7]:
	case o.marked:
	case s.alive.end.Load() <= s.alive.earliest(): // it has ended
	default:
		return o.ticket, o.ticket > 0 && o.length == 2, nil
	}
	return 0, false, nil
}

// refill makes tickets in the background.
func (f *fast) refill() {
	if !f.s.refilling.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer f.s.refilling.Store(false)
		ctx, cancel := context.WithTimeout(f.s.ctx, f.s.ttl)
		defer cancel()
		_, _ = f.s.store.call(ctx, touchScript, f.s.shard, f.s.incarnation, nil) // attempts make tickets, too
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
	removed, length := o.removed, o.length
	o.free()
	if removed != 11 {
		return false, nil
	}
	if length > 0 {
		f.s.store.contended.add(name)
		f.s.wake(ctx, name)
	}
	return true, nil
}

// wake grants to the next in the queue. If that fails, the next finds out with its poll.
func (s *session) wake(ctx context.Context, name string) {
	reply, err := s.call(ctx, wakeScript, []string{name}, name)
	if err == nil && more(reply) {
		go s.store.walk(s.ctx, s.store.settings, name, reply)
	}
}

// since is the estimate of the server's clock in ms, as claims have it.
func (s *session) since() string { return wire.BytesOf(s.alive.earliest(), 6) }
