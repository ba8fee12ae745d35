// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"errors"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// noticePause is long enough for a cluster without a leader.
const noticePause = time.Second

// watchGrant begins to watch the queue behind a claim, if that is granted and has Watch.
func (se *session) watchGrant(c *driver.Claim, granted bool) {
	if granted && c.Watch {
		// A member that has lost its leader must report it: its silence would mean that no claim is queued.
		se.notices.Start(clientv3.WithRequireLeader(se.C.Client.Ctx()), c, se.queuedBehind)
	}
}

// queuedBehind returns true when a claim is in the lock's queue, and false without an error
// if the grant is not there.
func (se *session) queuedBehind(ctx context.Context, seq uint64, name string) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, t := se.s, se.target(name, seq)
	// The watch comes before the read, so that nothing is missed: one that begins at the
	// revision of a read is served in steps of 100 ms.
	events := s.cluster.Client.Watch(ctx, s.keys.Queue(name), clientv3.WithPrefix(), clientv3.WithCreatedNotify(), clientv3.WithFilterDelete())
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

// replace ends the watches of the value with which the session was open before. A claim that still
// waits with that value polls.
func (se *session) replace(before driver.Session) {
	old, ok := before.(*session)
	if !ok || old.s != se.s || old.ID != se.ID {
		return
	}
	old.mu.Lock()
	defer old.mu.Unlock()
	old.stale = true
	old.notices.Close()
	if old.pushes != nil {
		old.pushes.cancel()
	}
}
