// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Session is one process's liveness: a lease, and a key on it that other
// transactions can compare.
type Session struct {
	C       *Cluster
	ID      driver.SessionID
	Lease   int64
	TTL     time.Duration
	Opened  int64 // revision
	Resumed bool  // it was open before

	cluster uint64
	closed  atomic.Bool
}

// Number makes the number of the lease from that of the session, so that an Open
// whose reply was lost finds its lease again.
func Number(id driver.SessionID) int64 {
	n := int64(binary.BigEndian.Uint64(id[:8]) &^ (1 << 63))
	return max(n, 1) // 0 would let etcd choose
}

// NewSession returns a session that is not open yet.
func (c *Cluster) NewSession(id driver.SessionID) *Session {
	return &Session{C: c, ID: id, Lease: Number(id)}
}

// Open makes the lease and the key of the session, or finds them again.
func (se *Session) Open(ctx context.Context, req driver.OpenRequest) (driver.Renewal, error) {
	if req.TTL < MinTTL || req.TTL > se.C.MaxTTL {
		return driver.Renewal{}, fmt.Errorf("%s: TTL %v is not within %v and %v (Options.MaxTTL): %w", se.C.pkg, req.TTL, MinTTL, se.C.MaxTTL, driver.ErrRefused)
	}
	renewal, err := se.open(ctx, req)
	if err != nil {
		return driver.Renewal{}, se.C.Fail(ctx, "open", err, Writing)
	}
	return renewal, nil
}

func (se *Session) open(ctx context.Context, req driver.OpenRequest) (driver.Renewal, error) {
	if err := Before(ctx); err != nil {
		return driver.Renewal{}, err
	}
	members := len(se.C.Client.Endpoints())
	ttl, err := twice(ctx, members, 2, func(ctx context.Context) (time.Duration, error) {
		return se.C.grantLease(ctx, se.Lease, Seconds(req.TTL))
	})
	if leaseThere(err) {
		se.Resumed = true
		ttl, _, err = se.C.beats.renew(ctx, se.Lease)
	}
	if err != nil {
		return driver.Renewal{}, err
	}
	se.TTL = ttl
	key, high := se.C.Keys.Session(req.ID), se.C.revisions.high()
	all := Within(se.C.Keys.AllBroken(req.ID), &pb.RangeRequest{})
	resp, err := twice(ctx, members, 1, func(ctx context.Context) (*pb.TxnResponse, error) {
		return se.C.KV.Txn(ctx, &pb.TxnRequest{Compare: []*pb.Compare{Absent(key)}, Failure: []*pb.RequestOp{all},
			Success: []*pb.RequestOp{all, Put(key, strconv.AppendInt(nil, int64(ttl/time.Second), 10), se.Lease)}}, callOptions...)
	})
	if err != nil {
		err = clientv3.ContextError(ctx, err)
		if Definite(err) && !se.Resumed {
			_, _ = se.C.Leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: se.Lease}) // or it ends by itself
		}
		return driver.Renewal{}, err
	}
	if err := se.C.remember(resp.Header, high); err != nil {
		return driver.Renewal{}, err
	}
	se.cluster, se.Opened = resp.Header.ClusterId, resp.Header.Revision
	broken, err := se.brokenIn(resp.Responses[0])
	return driver.Renewal{TTL: ttl, Broken: broken}, err
}

// remember takes the answer to an Open that was sent when high was the highest revision
// seen: answers to later calls may come first. The cluster may be another than before: that
// is what a session is opened again for. But if its revision is lower, its tokens would
// repeat.
func (c *Cluster) remember(h *pb.ResponseHeader, high int64) error {
	if c.revisions.see(h, high) != nil {
		return fmt.Errorf("the cluster is at revision %d and was at %d, so it would give out tokens a second time; restore with "+
			"etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted, or start this process again if no resource remembers a token: %w",
			h.Revision, high, driver.ErrRefused)
	}
	return nil
}

func (c *Cluster) grantLease(ctx context.Context, id, ttl int64) (time.Duration, error) {
	resp, err := c.Leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: id, TTL: ttl})
	if err != nil {
		return 0, err
	}
	return time.Duration(resp.TTL) * time.Second, nil
}

// maxElections is how often a keep-alive is repeated because the leader changed.
const maxElections = 3

// KeepAlive implements driver.Session.
func (se *Session) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	renewal, err := se.keepAlive(ctx)
	if err != nil {
		return driver.Renewal{}, se.C.Fail(ctx, "keep alive", err, Reading)
	}
	return renewal, nil
}

// keepAlive renews the lease, and then reads through a quorum. A leader that was
// deposed and does not know it still answers keep-alives from its memory; the
// renewal counts only if the term is the same when a quorum confirms it.
func (se *Session) keepAlive(ctx context.Context) (driver.Renewal, error) {
	if err := se.Enter(ctx); err != nil {
		return driver.Renewal{}, err
	}
	for range maxElections {
		ttl, term, err := se.C.beats.renew(ctx, se.Lease)
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

// Withdrawn is the value of the key of a broken claim that was withdrawn.
const Withdrawn = "withdrawn"

// confirm reads the session's key and its broken claims through a quorum.
func (se *Session) confirm(ctx context.Context) (broken []uint64, term uint64, err error) {
	resp, err := se.C.Commit(ctx, se, nil, []*pb.RequestOp{
		Count(se.C.Keys.Session(se.ID)), Within(se.C.Keys.AllBroken(se.ID), &pb.RangeRequest{}),
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
func (se *Session) brokenIn(answer *pb.ResponseOp) (broken []uint64, err error) {
	prefix := se.C.Keys.AllBroken(se.ID)
	for _, kv := range answer.GetResponseRange().Kvs {
		if string(kv.Value) == Withdrawn {
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

// goneOrReset finds out whether a session is gone because the cluster is another one.
func (se *Session) goneOrReset(ctx context.Context, err error) error {
	if !errors.Is(err, driver.ErrGone) {
		return err
	}
	if _, _, other := se.confirm(ctx); errors.Is(other, driver.ErrReset) {
		return other
	}
	return err
}

// Seconds rounds up to what a lease can last.
func Seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Enter begins a call.
func (se *Session) Enter(ctx context.Context) error {
	if se.Ended() {
		return driver.ErrGone
	}
	return Before(ctx)
}

// End makes every later call find the session gone. It reports whether it was open until now.
func (se *Session) End() bool { return !se.closed.Swap(true) }

// Ended reports whether End was called.
func (se *Session) Ended() bool { return se.closed.Load() }

// Revoke ends the session with all keys of its lease.
func (se *Session) Revoke(ctx context.Context) error {
	_, err := se.C.Leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: se.Lease})
	return err
}

// Attached returns the keys on the session's lease, from the memory of a leader, which may be behind.
func (se *Session) Attached(ctx context.Context) ([]string, error) {
	resp, err := se.C.Leases.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: se.Lease, Keys: true})
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(resp.Keys))
	for i, k := range resp.Keys {
		keys[i] = string(k)
	}
	return keys, nil
}
