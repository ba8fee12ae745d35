// SPDX-License-Identifier: Apache-2.0

package native

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// claim is all that a process knows about one of its claims.
type claim struct {
	seq    uint64
	name   string
	record string // in JSON
	state  state
	// late is set from the first unknown outcome on: a call that pushes the claim may still arrive, so it must be withdrawn
	// with a tombstone.
	late bool
	// ticket is the number of its grant, 0 if the process does not hold the lock.
	ticket int64
	// element is its element in the list of the lock, of a grant or in the queue, if the process
	// knows that.
	element string
	voted   bool // its number is a vote if a batch granted it: only scripts remove it
	lingers bool // its holder may keep the lock without using it
	holds   bool // its lock may be kept when it is withdrawn

	// polled is how many gaps of the pushes there had been when it asked last. waiting is its call of Await, and early a push that
	// came when there was none.
	polled  int64
	waiting *waiting
	early   *pushed

	watched bool // the process wants to be notified if another claim waits behind it
	wanted  bool // another one does
}

// state is how far a claim has come.
//
//	unsent ──▶ sent ──▶ granted ──▶ withdrawn
//	            │ └──▶ queued ──▶ granted
//	            └──▶ doubtful ──▶ any other but unsent, by the next attempt
type state uint8

const (
	// unsent: nothing of it was sent.
	unsent state = iota
	// sent: an attempt is on its way.
	sent
	// queued: it waits in the queue of the lock.
	queued
	// granted: it holds the lock.
	granted
	// doubtful: an attempt has an unknown outcome.
	doubtful
	// withdrawn: the process has given it up, or was answered that it is not in the store. Nothing is noted about it any more.
	withdrawn
)

// claims are those of a session that may be in the store, and the subscriptions that tell about them.
type claims struct {
	mu    sync.Mutex
	bySeq map[uint64]*claim
	// tombstones are those of which a mark may be in the store, the oldest first.
	tombstones []tombstone

	gaps    int64 // how often pushes may have been lost
	pushes  subscription
	notices subscription
	over    error // why the session was given up
}

// subscription is how far the subscription to a channel has come.
type subscription uint8

const (
	unasked subscription = iota
	asked
	confirmed
)

// copy returns the same claims, of which none waits.
func (c *claims) copy() *claims {
	c.mu.Lock()
	defer c.mu.Unlock()
	same := &claims{bySeq: map[uint64]*claim{}, tombstones: slices.Clone(c.tombstones)}
	for seq, k := range c.bySeq {
		one := *k
		one.waiting, one.early, one.watched, one.polled = nil, nil, false, 0
		if strings.HasPrefix(one.element, "A") {
			one.element = "" // a grant of an earlier incarnation may not stand, which a script finds out
		}
		same.bySeq[seq] = &one
	}
	return same
}

// begin notes that a claim may be in the store from now on. It returns its record, the state it was in before, and
// how many gaps there have been.
func (c *claims) begin(first *claim) (k *claim, was state, gaps int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, known := c.bySeq[first.seq]
	if !known {
		if c.bySeq == nil {
			c.bySeq = map[uint64]*claim{}
		}
		k = first
		c.bySeq[k.seq] = k
	}
	if k.record == "" {
		k.record = first.record // it was reclaimed, which needs none
	}
	if was = k.state; was == unsent {
		k.state = sent
	}
	return k, was, c.gaps
}

// note changes what is known about a claim, unless it was withdrawn since.
func (c *claims) note(k *claim, change func(k *claim)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.state != withdrawn {
		change(k)
	}
}

// stands notes that a claim holds its lock, with a number.
func (c *claims) stands(k *claim, ticket int64, element string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.state != withdrawn {
		k.state, k.ticket, k.element = granted, ticket, element
	}
}

// doubt notes that an attempt has an unknown outcome.
func (c *claims) doubt(k *claim) { c.note(k, func(k *claim) { k.state, k.late = doubtful, true }) }

// get returns what is known about a claim.
func (c *claims) get(seq uint64) claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.bySeq[seq]; k != nil {
		return *k
	}
	return claim{}
}

// drop forgets a claim.
func (c *claims) drop(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.bySeq[seq]; k != nil {
		k.state = withdrawn
		delete(c.bySeq, seq)
	}
}

// all returns what is known about all claims.
func (c *claims) all() []claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]claim, 0, len(c.bySeq))
	for _, k := range c.bySeq {
		all = append(all, *k)
	}
	return all
}

// tombstone is a claim of which a mark may be in the store.
type tombstone struct {
	seq  uint64
	name string
	at   int64 // in ms of the server's clock
}

// tombstoned notes that a claim may have a tombstone from now on.
func (c *claims) tombstoned(w driver.Withdrawal, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tombstones = append(c.tombstones, tombstone{w.Seq, w.Name, now})
}

// old returns the tombstones before a time, at most so many.
func (c *claims) old(before int64, most int) []tombstone {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < min(len(c.tombstones), most) && c.tombstones[n].at < before {
		n++
	}
	return slices.Clone(c.tombstones[:n])
}

// expired notes that the first tombstones, so many, have gone.
func (c *claims) expired(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tombstones = slices.Delete(c.tombstones, 0, n)
}

// encoded is a record as JSON, with how long its holder may linger.
type encoded struct {
	record *driver.Record
	linger time.Duration
	text   string
}

// records are those used last, as JSON. Most claims of a process have the same one, and
// those of a handle with options have the handle's; so few of them spare nearly all of
// the encoding. A process that traces has another one each time, for which nothing
// helps. Records are never changed, so a pointer stands for what it points to.
type records struct {
	mu   sync.Mutex
	last [8]*encoded
	next int // the one to replace
}

// find returns a record that was used lately, or nil.
func (r *records) find(t *driver.Terms) *encoded {
	for _, e := range r.last {
		if e != nil && e.record == t.Record && e.linger == t.Linger {
			return e
		}
	}
	return nil
}

func (r *records) keep(e *encoded) {
	r.last[r.next] = e
	r.next = (r.next + 1) % len(r.last)
}

// encode returns the record of terms as JSON.
func (r *records) encode(t *driver.Terms) (*encoded, error) {
	r.mu.Lock()
	e := r.find(t)
	r.mu.Unlock()
	if e != nil {
		return e, nil
	}
	text, err := json.Marshal(rediscmd.Shown{Record: t.Record, Linger: t.Linger.Milliseconds()})
	if err != nil {
		return nil, fmt.Errorf("redisstore: record: %w", err)
	}
	e = &encoded{t.Record, t.Linger, string(text)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(e)
	return e, nil
}
