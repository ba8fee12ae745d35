// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/etcdstore/internal/lock"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// waiting is a claim that is or was in line.
type waiting struct {
	target
	create int64 // revision at which it came into line
	seen   int64 // revision at which it was still there
	// ring has a message when something happened to it.
	ring chan struct{}
	// Guarded by the session's mu.
	push  *wake // nil until it is granted
	rev   int64 // of the grant
	token driver.Token
}

// grant notes a grant that an attempt has found; nothing is known of the line.
func (w *waiting) grant(token driver.Token) {
	w.se.mu.Lock()
	defer w.se.mu.Unlock()
	if w.push == nil {
		w.push, w.token = &wake{}, token
	}
}

// note remembers a claim in line, as it was at a revision.
func (se *session) note(t target, create, seen int64) *waiting {
	se.mu.Lock()
	defer se.mu.Unlock()
	w := se.waits[t.claim.Seq]
	if w == nil {
		w = &waiting{target: t, create: create, ring: make(chan struct{}, 1)}
		se.waits[t.claim.Seq] = w
	}
	w.seen = max(w.seen, seen)
	return w
}

// forget drops a claim that was withdrawn.
func (se *session) forget(seq uint64) {
	se.mu.Lock()
	defer se.mu.Unlock()
	delete(se.waits, seq)
}

// told says whether a claim's grant is known.
func (w *waiting) told() (driver.Token, bool) {
	w.se.mu.Lock()
	defer w.se.mu.Unlock()
	return w.token, w.push != nil
}

// pushes is the one watch of a session, for all its claims in line. It is opened
// with the first that waits and stays: a watch that begins at a revision which is
// past is served by etcd in steps of 100 ms, one that is under way at once.
type pushes struct {
	since  int64 // every push after this revision comes
	failed chan struct{}
	cancel context.CancelFunc
}

// errWatch is returned when a watch ended for a reason of its own.
var errWatch = errors.New("the watch ended")

// listen returns the session's watch, opened if there was none.
func (se *session) listen(ctx context.Context) (*pushes, error) {
	se.mu.Lock()
	p := se.pushes
	se.mu.Unlock()
	if p != nil {
		select {
		case <-p.failed:
		default:
			return p, nil
		}
	}
	// It outlives the call that opened it. A member that has lost its leader must
	// say so: its silence would look like nothing to tell.
	watching, cancel := context.WithCancel(clientv3.WithRequireLeader(context.WithoutCancel(ctx)))
	events := se.s.client.Watch(watching, se.s.keys.Wakes(se.id), clientv3.WithPrefix(), clientv3.WithCreatedNotify(),
		clientv3.WithFilterDelete())
	p = &pushes{failed: make(chan struct{}), cancel: cancel}
	select {
	case created, ok := <-events:
		if !ok || created.Err() != nil {
			cancel()
			return nil, errors.Join(errWatch, created.Err())
		}
		p.since = created.Header.Revision
	case <-ctx.Done():
		cancel()
		return nil, ctx.Err()
	}
	se.mu.Lock()
	defer se.mu.Unlock()
	if se.closed {
		cancel()
		return nil, driver.ErrGone
	}
	if old := se.pushes; old != nil {
		old.cancel() // a second one that began at the same time, or one that failed
	}
	se.pushes = p
	go se.receive(p, events)
	return p, nil
}

// receive tells the claims what was pushed, until the watch ends.
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
	seq, err := strconv.ParseUint(strings.TrimPrefix(string(kv.Key), se.s.keys.Wakes(se.id)), 10, 64)
	push := &wake{}
	if err != nil || json.Unmarshal(kv.Value, push) != nil {
		return // written by somebody else; a look tells the truth
	}
	for _, e := range push.Next {
		if _, e.ID, _, err = lock.ParseClaim(e.Key, se.s.keys.LineFrom()); err != nil {
			push.Next = nil
			break
		}
	}
	se.mu.Lock()
	defer se.mu.Unlock()
	w := se.waits[seq]
	if w == nil {
		return // withdrawn meanwhile
	}
	w.push, w.rev = push, kv.ModRevision
	if w.token = push.Join; w.token == 0 {
		w.token = lock.Token(kv.ModRevision, push.Index)
	}
	select {
	case w.ring <- struct{}{}:
	default:
	}
}
