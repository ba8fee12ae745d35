// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// plain acquires and releases a lock that is free with plain commands, which cost the server
// a third of what a script costs:
//
//	MULTI · LMOVE tickets lock · RPUSH lock claim · HMGET bucket marker session · SCRIPT EXISTS proof · EXEC
//	LREM lock ticket · LREM lock claim · LLEN lock
//
// The lock is held if the ticket was there and the list has no other pair, and if the replies
// show that a script would have granted it (counts, which decides what granting and stands decide in decide.lua). Anything
// else is decided by attempt.lua, which finds the claim in the list.
//
// The marks of claims are read only while the session has any, as far as this process knows: it
// sees in the session that there are some, and reads them from the next transaction on.
//
// During a grace period there are no tickets, so no transaction can grant.
//
// A release removes the ticket first. A claim without a ticket is a leftover that the next
// script removes; a ticket without a claim would become the ticket of a claim that another
// process pushes behind it when there are no tickets. It does not prove the run id: it removes what no other claim has, and grants
// nothing. In a server with another run id it gives back what it should, and no lock is granted there
// before a script has begun the new incarnation (package redismodel).
type plain struct {
	s       *session
	field   string // of the session in the bucket
	proven  string // SHA of the script that proves the run id
	lists   string // key of a list without its name
	tickets string // key of the tickets
	allowed bool   // the store knows every claim of the session that this process made

	calm    atomic.Bool  // a script has answered that there is no grace period
	marks   atomic.Bool  // the session had marks, in the last reply
	checked atomic.Int64 // until when the marker is known to count, in ms of the server's clock; unknown if it has to be tried
}

// unknown is the end of a check that was not read.
const unknown = math.MaxInt64

func (p *plain) init(s *session, graceOver, allowed bool) {
	p.s, p.field, p.lists, p.tickets, p.allowed = s, "s"+s.sid, s.base+":l:", s.base+":t", allowed
	p.calm.Store(graceOver)
	p.checked.Store(unknown)
	if own := s.proof.scripts[attemptScript]; own != nil {
		p.proven = own.SHA
	}
}

// call carries out one operation.
func (p *plain) call(ctx context.Context, o *operation, c *rediscmd.Commands) error {
	if o.release {
		return p.release(ctx, o, c)
	}
	return p.acquire(ctx, o, c)
}

func (p *plain) acquire(ctx context.Context, o *operation, c *rediscmd.Commands) error {
	list := p.lists + o.name
	c.Transaction = true
	c.Add("LMOVE", p.tickets, list, "LEFT", "RIGHT")
	c.Add("RPUSH", list, o.element)
	marks := p.marks.Load()
	if marks {
		c.Add("HMGET", p.s.base, "m", p.field, "b"+o.element[7:29])
	} else {
		c.Add("HMGET", p.s.base, "m", p.field)
	}
	c.Add("SCRIPT", "EXISTS", p.proven)
	err := p.s.store.client.Send(ctx, c)
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "EXECABORT"):
		return nil // it was not done, and the script answers why
	case strings.Contains(err.Error(), "WRONGTYPE"):
		o.result = inList // or not: the script decides
		return nil
	default:
		return err
	}
	ticket, length := c.Number(), c.Number()
	e := evidence{marker: c.Text(), session: c.Text()}
	switch {
	case marks:
		e.marked = c.Text() != ""
	default:
		e.marked = e.marks()
	}
	e.proven = c.Number() == 1
	if c.Err() != nil {
		return c.Err()
	}
	o.result = inList
	if ticket > 0 && ticket%refillEvery == 0 {
		p.refill()
	}
	if p.counts(e) {
		o.ticket = ticket
		if ticket > 0 && length == 2 {
			o.result = isGranted
		}
	}
	return nil
}

func (p *plain) release(ctx context.Context, o *operation, c *rediscmd.Commands) error {
	list := p.lists + o.name
	c.Add("LREM", list, "1", strconv.FormatInt(o.ticket, 10))
	c.Add("LREM", list, "1", o.element)
	c.Add("LLEN", list)
	if err := p.s.store.client.Send(ctx, c); err != nil {
		return err
	}
	ticket, claim, length := c.Number(), c.Number(), c.Number()
	switch {
	case ticket != 1 || claim != 1:
	case length > 0:
		o.result = passing
	default:
		o.result = released
	}
	return c.Err()
}

// evidence is what a transaction read beside the claim that it pushed.
type evidence struct {
	marker, session string
	marked          bool // the claim has a mark, or may have one
	proven          bool
}

// marks reports whether the session has marks.
func (e *evidence) marks() bool {
	return len(e.session) >= sessionHead && e.session[13:sessionHead] != noMarks
}

const (
	// sessionHead is how long the part of a session is that is read here: end, generation, marks (decide.lua).
	sessionHead = 17
	noMarks     = "\x00\x00\x00\x00"
)

// counts decides whether a claim that a transaction pushed may be granted, as decide.lua does: the marker is that of the
// session's incarnation, there are no votes, it was checked, and no grace period goes on; the session has its generation and lives, the claim has no mark,
// and the server knows a script that was loaded only under its run id.
func (p *plain) counts(e evidence) bool {
	tail := p.s.tail
	p.marks.Store(e.marks())
	switch {
	case !e.proven:
		p.s.proof.lost()
	case len(e.marker) < markerHead || e.marker[:7] != tail[7:] || e.marker[7] != 0:
	case !p.fresh(rediscmd.NumberOf(e.marker[8:14])):
	case rediscmd.NumberOf(e.marker[21:27]) > p.s.alive.earliest(): // the end of a grace period
	case len(e.session) < sessionHead || e.session[6:13] != tail[:7]:
	case e.marked:
	default:
		return p.s.alive.lives()
	}
	return false
}

// fresh reports whether a marker counts until a time, and has it checked again before that is over.
func (p *plain) fresh(till int64) bool {
	if till == 0 {
		return false
	}
	now := p.s.alive.latest()
	p.checked.Store(till)
	// What is known of the bucket is behind a mutex, and no check counts for longer than maxCheck.
	if left := till - now; left < maxCheck.Milliseconds()/2 && left < p.s.store.seen.of(p.s.base).check().Milliseconds()/2 {
		p.refill()
	}
	return now < till && till <= now+maxCheck.Milliseconds()
}

// refillEvery is how many tickets are taken until one of the processes makes more.
const refillEvery = 512

// refill makes tickets in the background.
func (p *plain) refill() {
	s := p.s
	if !s.refilling.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.refilling.Store(false)
		ctx, cancel := context.WithTimeout(s.ctx, s.ttl)
		defer cancel()
		_, _ = s.call(ctx, touchScript, nil) // attempts make tickets, too
	}()
}

// mayAcquire reports whether a claim that was never sent before may be sent as an operation. One with a floor is a vote, and
// needs a script.
func (p *plain) mayAcquire(c *driver.Claim) bool {
	if !p.allowed || c.Lift || !c.Terms.Plain() || p.s.store.contended.has(c.Name) {
		return false
	}
	if c.Floor > 0 {
		return p.s.proof.script(batchScript) != nil
	}
	return c.Queue && p.calm.Load() && p.s.proof.proven() && p.s.alive.latest() < p.checked.Load()
}

// mayRelease reports whether a grant may be removed by an operation: one that is waited for
// would need a script behind it.
func (p *plain) mayRelease(w driver.Withdrawal, c claim) bool {
	short := c.element != "" && c.element[0] != 'A'
	return c.state == granted && c.ticket > 0 && short && !c.wanted && c.name == w.Name && !w.Tombstone && w.KeepFor == 0 &&
		p.s.proof.proven() && !p.s.store.contended.has(w.Name)
}

const (
	// contendedFor is how long a name is known as contended after a process waited for it.
	contendedFor = 2 * time.Second
	// maxContended bounds how many names are known. Beyond it the names of before are
	// dropped, which costs each of them a round trip.
	maxContended = 4096
)

// contended are the names for which processes waited a moment ago. A lock of such a name is
// acquired and released by scripts: plain commands would need a script behind them.
type contended struct {
	off   bool // for tests: no name is known
	all   bool // for tests: every name is known
	any   atomic.Bool
	mu    sync.Mutex
	names map[string]time.Time
}

func (c *contended) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil || len(c.names) >= maxContended {
		c.names = map[string]time.Time{}
	}
	c.names[name] = time.Now()
	c.any.Store(true)
}

// waited notes that a claim waits for a name. A holder that lingers gives the lock back, and
// claims the name without Linger for a while: most likely no claim waits for it next time.
func (c *contended) waited(name string, holders []driver.Holder) {
	if slices.ContainsFunc(holders, func(h driver.Holder) bool { return h.Linger > 0 }) {
		c.remove(name)
	} else {
		c.add(name)
	}
}

func (c *contended) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.names, name)
	c.any.Store(len(c.names) > 0)
}

func (c *contended) has(name string) bool {
	if c.off || c.all || !c.any.Load() {
		return c.all
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.names[name]
	if ok && time.Since(at) > contendedFor {
		delete(c.names, name)
		c.any.Store(len(c.names) > 0)
		return false
	}
	return ok
}
