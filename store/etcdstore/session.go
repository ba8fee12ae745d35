// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/failure"
	"github.com/fencelock/fencelock/store/etcdstore/internal/share"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// session is one process's liveness: a lease, and a key on it that other
// transactions can compare.
type session struct {
	s       *Store
	id      driver.SessionID
	lease   int64
	ttl     time.Duration
	cluster uint64
	opened  int64 // revision
	resumed bool

	mu      sync.Mutex
	closed  bool
	ended   chan struct{} // closed with it
	stale   bool          // the session was opened again, with another value
	waits   map[uint64]*waiting
	grants  map[uint64]place // of claims that were granted at once
	busy    map[string]int   // names that claims waited for lately
	pushes  *pushes
	notices notices
	opening chan struct{}   // full while a watch is opened
	touched map[uint64]bool // claims attempted since a resumed session was opened, until the others are dropped
}

func newSession(s *Store, id driver.SessionID) *session {
	return &session{s: s, id: id, lease: share.Lease(id), ended: make(chan struct{}), opening: make(chan struct{}, 1),
		waits: map[uint64]*waiting{}, grants: map[uint64]place{}, busy: map[string]int{}}
}

// Open implements driver.Store.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	if req.TTL < minTTL || req.TTL > s.maxTTL {
		return nil, driver.Renewal{}, fmt.Errorf("etcdstore: TTL %v is not within %v and %v (Options.MaxTTL): %w",
			req.TTL, minTTL, s.maxTTL, driver.ErrRefused)
	}
	se := newSession(s, req.ID)
	se.notices.wanted = req.Wanted
	renewal, err := se.open(ctx, req)
	if err != nil {
		return nil, driver.Renewal{}, fail(ctx, "open", err, writing)
	}
	s.handles.set(se)
	return se, renewal, nil
}

func (se *session) open(ctx context.Context, req driver.OpenRequest) (driver.Renewal, error) {
	if err := before(ctx); err != nil {
		return driver.Renewal{}, err
	}
	s, members := se.s, len(se.s.client.Endpoints())
	ttl, err := twice(ctx, members, 2, func(ctx context.Context) (time.Duration, error) { return s.grantLease(ctx, se.lease, seconds(req.TTL)) })
	if leaseThere(err) {
		se.resumed = true
		ttl, _, err = s.beats.renew(ctx, se.lease)
	}
	if err != nil {
		return driver.Renewal{}, err
	}
	se.ttl = ttl
	key, high := s.keys.Session(req.ID), s.revisions.High()
	all := within(s.keys.AllBroken(req.ID), &pb.RangeRequest{})
	resp, err := twice(ctx, members, 1, func(ctx context.Context) (*pb.TxnResponse, error) {
		return s.kv.Txn(ctx, &pb.TxnRequest{Compare: []*pb.Compare{absent(key)}, Failure: []*pb.RequestOp{all},
			Success: []*pb.RequestOp{all, put(key, strconv.AppendInt(nil, int64(ttl/time.Second), 10), se.lease)}}, callOptions...)
	})
	if err != nil {
		err = clientv3.ContextError(ctx, err)
		if failure.Definite(err) && !se.resumed {
			_, _ = s.leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: se.lease}) // or it ends by itself
		}
		return driver.Renewal{}, err
	}
	if err := s.remember(resp.Header, high); err != nil {
		return driver.Renewal{}, err
	}
	se.cluster, se.opened = resp.Header.ClusterId, resp.Header.Revision
	if se.resumed {
		se.touched = map[uint64]bool{}
	}
	broken, err := se.brokenIn(resp.Responses[0])
	return driver.Renewal{TTL: ttl, Broken: broken}, err
}

// remember takes the answer to an Open that was sent when high was the highest revision
// seen: answers to later calls may come first. The cluster may be another than before: that
// is what a session is opened again for. But if its revision is lower, its tokens would
// repeat.
func (s *Store) remember(h *pb.ResponseHeader, high int64) error {
	if s.revisions.See(h, high) != nil {
		return fmt.Errorf("the cluster is at revision %d and was at %d, so it would give out tokens a second time; restore with "+
			"etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted, or start this process again if no resource remembers a token: %w",
			h.Revision, high, driver.ErrRefused)
	}
	return nil
}

func (s *Store) grantLease(ctx context.Context, id, ttl int64) (time.Duration, error) {
	resp, err := s.leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: id, TTL: ttl})
	if err != nil {
		return 0, err
	}
	return time.Duration(resp.TTL) * time.Second, nil
}

// maxElections is how often a keep-alive is repeated because the leader changed.
const maxElections = 3

// KeepAlive implements driver.Session.
func (se *session) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	renewal, err := se.keepAlive(ctx)
	if err != nil {
		return driver.Renewal{}, fail(ctx, "keep alive", err, reading)
	}
	return renewal, nil
}

// keepAlive renews the lease, and then reads through a quorum. A leader that was
// deposed and does not know it still answers keep-alives from its memory; the
// renewal counts only if the term is the same when a quorum confirms it.
func (se *session) keepAlive(ctx context.Context) (driver.Renewal, error) {
	if err := se.enter(ctx); err != nil {
		return driver.Renewal{}, err
	}
	for range maxElections {
		ttl, term, err := se.s.beats.renew(ctx, se.lease)
		if err != nil {
			return driver.Renewal{}, se.goneOrReset(ctx, err)
		}
		broken, now, err := se.confirm(ctx)
		if err != nil {
			return driver.Renewal{}, err
		}
		if now == term {
			return driver.Renewal{TTL: ttl, Broken: broken}, nil
		}
	}
	return driver.Renewal{}, fmt.Errorf("the leader changed %d times: %w", maxElections, driver.ErrUnavailable)
}

// withdrawn is the value of the key of a broken claim that was withdrawn.
const withdrawn = "withdrawn"

// confirm reads the session's key and its broken claims through a quorum.
func (se *session) confirm(ctx context.Context) (broken []uint64, term uint64, err error) {
	resp, err := se.s.commit(ctx, se, nil, []*pb.RequestOp{
		count(se.s.keys.Session(se.id)), within(se.s.keys.AllBroken(se.id), &pb.RangeRequest{}),
	}, nil)
	if err != nil {
		return nil, 0, err
	}
	if resp.Responses[0].GetResponseRange().Count == 0 {
		return nil, 0, driver.ErrGone
	}
	broken, err = se.brokenIn(resp.Responses[1])
	return broken, resp.Header.RaftTerm, err
}

// brokenIn returns the broken claims of the session from an answer with its keys of broken claims.
func (se *session) brokenIn(answer *pb.ResponseOp) (broken []uint64, err error) {
	prefix := se.s.keys.AllBroken(se.id)
	for _, kv := range answer.GetResponseRange().Kvs {
		if string(kv.Value) == withdrawn {
			continue
		}
		seq, err := strconv.ParseUint(strings.TrimPrefix(string(kv.Key), prefix), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q names no claim", kv.Key)
		}
		broken = append(broken, seq)
	}
	return broken, nil
}

// enter begins a call.
func (se *session) enter(ctx context.Context) error {
	se.mu.Lock()
	defer se.mu.Unlock()
	if se.closed {
		return driver.ErrGone
	}
	return before(ctx)
}

// goneOrReset finds out whether a session is gone because the cluster is another one.
func (se *session) goneOrReset(ctx context.Context, err error) error {
	if !errors.Is(err, driver.ErrGone) {
		return err
	}
	if _, _, other := se.confirm(ctx); errors.Is(other, driver.ErrReset) {
		return other
	}
	return err
}
