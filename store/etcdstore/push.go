// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// push notifies a session of queued claims that were granted. A session has one key for
// them, which each push overwrites: a watch reports every one.
type push struct {
	Grants []wake           `json:"grants"`
	to     driver.SessionID // whose it is
}

// wake is one grant. Next are the claims queued behind it, as they were: with them the
// new holder can hand the lock on in one transaction without reading first.
type wake struct {
	Seq   uint64        `json:"seq"`
	Slot  int           `json:"slot,omitempty"`
	Index int           `json:"index,omitempty"`
	Join  driver.Token  `json:"join,omitempty"`
	Next  []*lock.Entry `json:"next,omitempty"`
	More  bool          `json:"more,omitempty"` // the queue may be longer
}

func (p *push) encode() []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic("etcdstore: a push has no JSON form: " + err.Error())
	}
	return b
}

// wake makes the push of a grant. It names those behind only if the claim is
// granted alone: else the lock may have changed when it is given back.
func (st *step) wake(pr lock.Promotion, g grant) wake {
	w := wake{Seq: pr.ID.Seq, Slot: g.slot, Index: g.index, Join: pr.Join}
	alone := len(st.after.Held) == len(st.plan.Drop) && len(st.plan.Promote) == 1
	if place := st.after.Position(pr.ID); alone && place >= 0 && !pr.Value.Shared() && pr.Value.MinHold == 0 && pr.Value.MaxHold == 0 {
		w.Next, w.More = st.after.Queue[place+1:], !st.after.Whole()
	}
	return w
}

// place is where the grant of a claim is.
type place struct {
	rev  int64
	slot int
	held bool // it has a MaxHold
}

// waiting is a claim that is or was queued.
type waiting struct {
	target
	// ring has a message when something happened to it. It is nil until a caller waits.
	ring chan struct{}
	// Guarded by the session's mu.
	create int64 // revision at which it was queued, 0 until that is known
	seen   int64 // revision at which it was still queued
	push   *wake // nil until it is granted
	rev    int64 // of the push
	token  driver.Token
}

// created returns the revision at which the claim was queued.
func (w *waiting) created() int64 {
	w.se.mu.Lock()
	defer w.se.mu.Unlock()
	return w.create
}

// grant notes a grant that an attempt has found; nothing is known of the queue.
func (w *waiting) grant(token driver.Token) {
	w.se.mu.Lock()
	defer w.se.mu.Unlock()
	if w.push == nil {
		w.push, w.token = &wake{}, token
	}
}

// note remembers a queued claim, as it was at a revision.
func (se *session) note(t target, create, seen int64) *waiting {
	se.mu.Lock()
	defer se.mu.Unlock()
	w := se.waits[t.claim.Seq]
	if w == nil {
		w = &waiting{target: t}
		se.waits[t.claim.Seq] = w
	}
	w.create = create
	w.seen = max(w.seen, seen)
	return w
}

// dropClaim drops a claim that was withdrawn, and notes whether claims wait for its lock.
func (se *session) dropClaim(seq uint64, name string, alone bool) {
	se.mu.Lock()
	defer se.mu.Unlock()
	delete(se.waits, seq)
	delete(se.grants, seq)
	delete(se.touched, seq) // an Open that was sent twice is not followed by the Reclaim that ends these notes
	se.notices.End(seq)
	if n := se.busy[name]; alone && n > 1 {
		se.busy[name] = n - 1
	} else if alone {
		delete(se.busy, name)
	}
}

// notified reports whether a claim's grant is known.
func (w *waiting) notified() (driver.Token, bool) {
	w.se.mu.Lock()
	defer w.se.mu.Unlock()
	return w.token, w.push != nil
}

// pushes is the one watch of a session, for all its queued claims. It is opened
// with the first that waits and stays: a watch that begins at a revision which is
// past is served by etcd in steps of 100 ms, one that is under way at once.
type pushes struct {
	since  int64 // every push after this revision comes
	failed chan struct{}
	cancel context.CancelFunc
}

// errWatch is returned when a watch ends that its caller did not cancel.
var errWatch = errors.New("the watch ended")

// listen returns the session's watch, opened if there was none.
func (se *session) listen(ctx context.Context) (*pushes, error) {
	select { // one at a time
	case se.opening <- struct{}{}:
		defer func() { <-se.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	se.mu.Lock()
	p, stale := se.pushes, se.stale
	se.mu.Unlock()
	if stale {
		return nil, errWatch
	}
	if p != nil {
		select {
		case <-p.failed:
		default:
			return p, nil
		}
	}
	// It outlives the call that opened it. A member that has lost its leader must
	// report it: its silence would mean that nothing was granted.
	watching, cancel := context.WithCancel(clientv3.WithRequireLeader(context.WithoutCancel(ctx)))
	begun := context.AfterFunc(ctx, cancel) // Watch itself waits for a server that does not answer
	events := se.s.cluster.Client.Watch(watching, se.s.keys.Wake(se.ID), clientv3.WithCreatedNotify(), clientv3.WithFilterDelete())
	p = &pushes{failed: make(chan struct{}), cancel: cancel}
	created, ok := <-events
	if !begun() {
		return nil, ctx.Err()
	}
	if !ok || created.Err() != nil {
		cancel()
		return nil, errors.Join(errWatch, created.Err())
	}
	p.since = created.Header.Revision
	se.mu.Lock()
	defer se.mu.Unlock()
	switch {
	case se.Ended():
		cancel()
		return nil, driver.ErrGone
	case se.stale:
		cancel()
		return nil, errWatch
	}
	se.pushes = p
	go se.receive(p, events)
	return p, nil
}

// receive notifies the claims that were pushed, until the watch ends.
func (se *session) receive(p *pushes, events clientv3.WatchChan) {
	defer close(p.failed)
	for resp := range events {
		if resp.Err() != nil {
			break
		}
		for _, ev := range resp.Events {
			se.pushed(ev.Kv)
		}
	}
	p.cancel()
}

// pushed takes one push.
func (se *session) pushed(kv *mvccpb.KeyValue) {
	var p push
	if json.Unmarshal(kv.Value, &p) != nil {
		return // not written by this library; a poll finds the truth
	}
	se.mu.Lock()
	defer se.mu.Unlock()
	for i := range p.Grants {
		push := &p.Grants[i]
		w := se.waits[push.Seq]
		if w == nil {
			continue // lease.Withdrawn in the meantime
		}
		push.parse(se.s.keys)
		w.push, w.rev = push, kv.ModRevision
		w.token = push.Join
		if w.token == 0 {
			w.token = lock.Token(kv.ModRevision, push.Index)
		}
		select {
		case w.ring <- struct{}{}:
		default:
		}
	}
}

// parse fills in what follows from the keys of those behind.
func (w *wake) parse(keys lock.Space) {
	for _, e := range w.Next {
		p, err := keys.Parse(e.Key)
		if err != nil {
			w.Next = nil
			return
		}
		e.ID, e.Slot = driver.ClaimID{Session: p.Session, Seq: e.Value.Seq}, p.Slot
	}
}
