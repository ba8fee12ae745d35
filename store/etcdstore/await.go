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

const (
	// patience is how long a claim waits for its push before it also watches the
	// claim in front of it. Most waits are over by then, and cost no watch.
	patience = 300 * time.Millisecond
	// pushTime is how long after the end of a grant in front its push may take.
	// Without a push by then, the grant ended with its lease.
	pushTime = 50 * time.Millisecond
)

// Await implements driver.Session.
func (se *session) Await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	out, err := se.await(ctx, c)
	switch {
	case err == nil:
		se.watchGrant(c, out.State == driver.Granted)
		return out, nil
	case errors.Is(err, errWatch) && ctx.Err() == nil:
		return driver.Outcome{State: driver.Absent}, nil // the caller polls
	}
	return driver.Outcome{}, se.C.Fail(ctx, "await", err, lease.Reading)
}

func (se *session) await(ctx context.Context, c *driver.Claim) (driver.Outcome, error) {
	if err := se.Enter(ctx); err != nil {
		return driver.Outcome{}, err
	}
	se.mu.Lock()
	w := se.waits[c.Seq]
	var seen, create int64
	if w != nil {
		seen, create = w.seen, w.create
		if w.ring == nil {
			w.ring = make(chan struct{}, 1)
		}
	}
	se.mu.Unlock()
	if create == 0 {
		return driver.Outcome{State: driver.Absent}, nil
	}
	if token, ok := w.notified(); ok {
		return driver.Outcome{State: driver.Granted, Token: token}, nil
	}
	p, err := se.listen(ctx)
	if err != nil {
		return driver.Outcome{}, err
	}
	if seen < p.since {
		// It may have been granted before the watch began.
		if out, err := w.check(ctx); err != nil || out.State != driver.Queued {
			return out, err
		}
	}
	return w.wait(ctx, p)
}

// check reads whether a claim is granted by now.
func (w *waiting) check(ctx context.Context) (driver.Outcome, error) {
	v, err := w.se.s.read(ctx, w.target, 1)
	if err != nil {
		return driver.Outcome{}, err
	}
	if g := v.Find(w.claim); g != nil && g.Main != nil && !g.Over() {
		w.grant(g.Main.Token())
		return driver.Outcome{State: driver.Granted, Token: g.Main.Token()}, nil
	}
	if v.queued == nil {
		return driver.Outcome{State: driver.Absent}, nil
	}
	w.se.note(w.target, w.created(), v.Rev)
	return driver.Outcome{State: driver.Queued}, nil
}

// wait returns when the claim is granted, or when it is worth a poll.
func (w *waiting) wait(ctx context.Context, p *pushes) (driver.Outcome, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ahead chan error
	for {
		select {
		case <-w.ring:
			if token, ok := w.notified(); ok {
				return driver.Outcome{State: driver.Granted, Token: token}, nil
			}
		case <-ctx.Done():
			return driver.Outcome{}, ctx.Err()
		case <-w.se.ended:
			return driver.Outcome{}, driver.ErrGone
		case <-p.failed:
			return driver.Outcome{}, errWatch
		case <-timer.C:
			if ahead != nil {
				return driver.Outcome{State: driver.Queued}, nil
			}
			ahead = make(chan error, 1)
			go func() { ahead <- w.watchAhead(ctx) }()
		case err := <-ahead:
			if err != nil {
				return driver.Outcome{}, errors.Join(errWatch, err)
			}
			timer.Reset(pushTime)
		}
	}
}

// watchAhead returns when a poll is worth it: the claim is the first in the queue and a
// grant in front of it has ended, or it has left the queue. Until then it watches its
// predecessor in the queue, so that one claim wakes when one in front of it goes, however
// long the queue is.
func (w *waiting) watchAhead(ctx context.Context) error {
	s := w.se.s
	for {
		create := w.created() // read again each time: an attempt may change it
		resp, err := s.cluster.Commit(ctx, w.se.Session, nil, []*pb.RequestOp{
			lease.Within(s.keys.Queue(w.name), &pb.RangeRequest{KeysOnly: true, MaxCreateRevision: create, Limit: 2,
				SortTarget: pb.RangeRequest_CREATE, SortOrder: pb.RangeRequest_DESCEND}),
			lease.Within(s.keys.Held(w.name), &pb.RangeRequest{CountOnly: true}),
		}, nil)
		if err != nil {
			return err
		}
		queue := resp.Responses[0].GetResponseRange().Kvs
		if len(queue) == 0 || queue[0].CreateRevision != create {
			return nil // it is not queued any more, and no push came
		}
		before := queue[1:]
		if len(before) == 0 && resp.Responses[1].GetResponseRange().Count == 0 {
			return nil
		}
		// From the revision of the read, so that nothing is missed; that the first
		// message may then be 100 ms late is no matter here.
		opts := []clientv3.OpOption{clientv3.WithRev(resp.Header.Revision + 1), clientv3.WithFilterPut()}
		key := s.keys.Held(w.name)
		if len(before) > 0 {
			key = string(before[0].Key)
		} else {
			opts = append(opts, clientv3.WithPrefix())
		}
		if err := s.deleted(ctx, key, opts); err != nil || len(before) == 0 {
			return err
		}
	}
}

// deleted returns when a key that the options select was deleted.
func (s *Store) deleted(ctx context.Context, key string, opts []clientv3.OpOption) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for resp := range s.cluster.Client.Watch(ctx, key, opts...) {
		if err := resp.Err(); err != nil {
			return err
		}
		if len(resp.Events) > 0 {
			return nil
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return errWatch
}
