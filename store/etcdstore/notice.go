// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// notices are the watches on the queues behind the grants of a session whose holders asked
// for it. A watch ends with the first claim that is queued: its holder is notified then.
type notices struct {
	wanted func(seq uint64)
	// Guarded by the session's mu.
	watches map[uint64]context.CancelFunc // by claim, also of those that were notified
}

// watchGrant begins to watch the queue behind a claim, if that is granted and has Watch.
func (se *session) watchGrant(c *driver.Claim, granted bool) {
	if !granted || !c.Watch || se.notices.wanted == nil {
		return
	}
	se.mu.Lock()
	defer se.mu.Unlock()
	if se.Ended() || se.stale || se.notices.watches[c.Seq] != nil {
		return
	}
	// Not with the call that began it, but with the client. A member that has lost its
	// leader must report it: its silence would mean that no claim is queued.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(se.s.cluster.Client.Ctx()))
	if se.notices.watches == nil {
		se.notices.watches = map[uint64]context.CancelFunc{}
	}
	se.notices.watches[c.Seq] = cancel
	t := se.target(c.Name, c.Seq)
	go func() {
		defer cancel()
		t.notify(ctx)
	}()
}

// unwatchLocked ends the watch behind a claim that was withdrawn. se.mu must be held.
func (se *session) unwatchLocked(seq uint64) {
	if cancel := se.notices.watches[seq]; cancel != nil {
		cancel()
		delete(se.notices.watches, seq)
	}
}

// unwatchAllLocked ends the watches of a session that is closed, or that was opened again
// with another value. se.mu must be held.
func (se *session) unwatchAllLocked() {
	for seq := range se.notices.watches {
		se.unwatchLocked(seq)
	}
}

// noticePause is how long a watch that failed pauses before the next try: short against a
// renewal, and long enough for a cluster without a leader.
const noticePause = time.Second

// notify notifies the session when a claim is queued behind the granted one, and returns
// then, or when ctx ends or the grant has ended.
func (t target) notify(ctx context.Context) {
	for {
		wanted, err := t.queuedBehind(ctx)
		switch {
		case wanted:
			t.se.notices.wanted(t.claim.Seq)
			return
		case err == nil: // a withdrawal came before the watch
			t.se.mu.Lock()
			t.se.unwatchLocked(t.claim.Seq)
			t.se.mu.Unlock()
			return
		}
		select {
		case <-time.After(noticePause):
		case <-ctx.Done():
			return
		}
	}
}

// queuedBehind returns true when a claim is in the lock's queue, and false without an error
// if the grant is not there.
func (t target) queuedBehind(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := t.se.s
	// The watch comes before the read, so that nothing is missed: one that begins at the
	// revision of a read is served in steps of 100 ms.
	events := s.cluster.Client.Watch(ctx, s.keys.Queue(t.name), clientv3.WithPrefix(), clientv3.WithCreatedNotify(), clientv3.WithFilterDelete())
	if created, ok := <-events; !ok || created.Err() != nil {
		return false, errors.Join(errWatch, created.Err())
	}
	held, queued, err := t.read(ctx)
	if err != nil || !held || queued {
		return held && queued, err
	}
	for resp := range events {
		if err := resp.Err(); err != nil {
			return false, err
		}
		if len(resp.Events) > 0 {
			return true, nil
		}
	}
	return false, errWatch
}

// read reads whether the claim is granted, and whether a claim is queued for the lock.
func (t target) read(ctx context.Context) (held, queued bool, err error) {
	s := t.se.s
	resp, err := s.cluster.Commit(ctx, t.session(), nil, []*pb.RequestOp{
		lease.Within(s.keys.HeldOf(t.name, t.se.ID), &pb.RangeRequest{}),
		lease.Within(s.keys.Queue(t.name), &pb.RangeRequest{CountOnly: true}),
	}, nil)
	if err != nil {
		return false, false, err
	}
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		e, _, err := s.entry(kv)
		if err != nil {
			return false, false, err
		}
		held = held || e.ID.Seq == t.claim.Seq
	}
	return held, resp.Responses[1].GetResponseRange().Count > 0, nil
}

// handles are the latest values of the sessions that are open. Opening a session again
// makes another value, and the watches of the one before must not stay.
type handles struct {
	mu     sync.Mutex
	latest map[driver.SessionID]*session
}

// set notes the value that Open returns, and ends the watches of the one before.
func (h *handles) set(se *session) {
	h.mu.Lock()
	before := h.latest[se.ID]
	if h.latest == nil {
		h.latest = map[driver.SessionID]*session{}
	}
	h.latest[se.ID] = se
	h.mu.Unlock()
	if before != nil {
		before.retire()
	}
}

// retire ends the watches of a value whose session was opened again with another one. A claim
// that still waits with this value polls.
func (se *session) retire() {
	se.mu.Lock()
	defer se.mu.Unlock()
	se.stale = true
	se.unwatchAllLocked()
	if se.pushes != nil {
		se.pushes.cancel()
	}
}

// drop drops a session that is closed, or whose value no caller has.
func (h *handles) drop(se *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.latest[se.ID] == se {
		delete(h.latest, se.ID)
	}
}
