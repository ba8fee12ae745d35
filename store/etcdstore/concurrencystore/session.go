// SPDX-License-Identifier: Apache-2.0

package concurrencystore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/failure"
	"github.com/fencelock/fencelock/store/etcdstore/internal/share"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// session is a session of etcdstore, on whose lease the claims are.
type session struct {
	driver.Session
	s       *Store
	id      driver.SessionID
	lease   int64
	cluster uint64
	claims  *claims
	// unread is how many renewals in a row could not read which keys are there.
	unread atomic.Int32
}

func newSession(s *Store, base driver.Session, id driver.SessionID) *session {
	return &session{Session: base, s: s, id: id, lease: share.Lease(id), claims: newClaims()}
}

// own makes this value of the session the latest: it writes the handle of the session. A write of an earlier value
// compares the handle, so an attempt that is still under way from there adds no key.
func (se *session) own(ctx context.Context) error {
	handle := se.s.parts.Keys.Handle(se.id)
	resp, err := se.s.commit(ctx, anyCluster, []clientv3.Cmp{there(se.s.parts.Keys.Session(se.id))},
		[]clientv3.Op{clientv3.OpGet(handle), clientv3.OpPut(handle, "", se.onLease())}, nil)
	switch {
	case failure.LeaseMissing(err), err == nil && !resp.Succeeded:
		return fmt.Errorf("the session ended while it was opened: %w", driver.ErrUnavailable)
	case err != nil:
		return err
	}
	se.cluster = resp.Header.ClusterId
	se.claims.opened(resp.Header.Revision, len(rangeOf(resp, 0).Kvs) > 0)
	return nil
}

func (se *session) onLease() clientv3.OpOption {
	return clientv3.WithLease(clientv3.LeaseID(se.lease))
}

// ownKey is the key of the session's first claim for a lock. The keys of its other claims have a dot and a number behind it.
func (se *session) ownKey(name string) string { return fmt.Sprintf("%s%x", se.s.under(name), se.lease) }

// keyOf is the key of a claim.
func (se *session) keyOf(name string, slot int) string {
	if slot == 0 {
		return se.ownKey(name)
	}
	return se.ownKey(name) + "." + strconv.Itoa(slot)
}

// ownEnd is the end of the range of the session's keys for a lock: a slash follows the dot, and precedes the digits with which the
// number of a longer lease would go on.
func (se *session) ownEnd(name string) string { return se.ownKey(name) + "/" }

// commit sends a transaction of the session.
func (se *session) commit(ctx context.Context, ifs []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	resp, err := se.s.commit(ctx, se.cluster, ifs, then, otherwise)
	if failure.LeaseMissing(err) {
		return nil, driver.ErrGone
	}
	return resp, err
}

// createdAt compares the revision at which a key was created; 0 is that of a key that does not exist.
func createdAt(key string, revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", revision)
}

func absent(key string) clientv3.Cmp { return createdAt(key, 0) }

func there(key string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), ">", 0)
}

// attached returns the keys on the session's lease, from the memory of a leader, which may be behind.
func (se *session) attached(ctx context.Context) ([]string, error) {
	resp, err := se.s.parts.Leases.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: se.lease, Keys: true})
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(resp.Keys))
	for i, k := range resp.Keys {
		keys[i] = string(k)
	}
	return keys, nil
}

// KeepAlive implements driver.Session. A claim whose key another program deleted is reported as broken. Which keys are there is
// read after the lease was kept alive, and a renewal that succeeded counts even if that fails.
func (se *session) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	held := se.claims.held()
	renewal, err := se.Session.KeepAlive(ctx)
	if err != nil {
		return driver.Renewal{}, fmt.Errorf("concurrencystore: %w", driver.Inner(err))
	}
	reading, cancel := half(ctx)
	defer cancel()
	missing, err := se.missing(reading, held)
	switch {
	case err == nil:
		se.unread.Store(0)
	case passing(err) && se.unread.Add(1) < maxUnread:
		return renewal, nil
	default:
		return driver.Renewal{}, se.s.fail(reading, "keep alive", err, failure.Reading)
	}
	still := se.claims.held() // a key that was removed since is not missing
	for _, seq := range missing {
		if _, ok := still[seq]; ok {
			renewal.Broken = append(renewal.Broken, seq)
		}
	}
	slices.Sort(renewal.Broken)
	renewal.Broken = slices.Compact(renewal.Broken)
	return renewal, nil
}

// maxUnread is the renewal in a row that fails because the keys cannot be read. The ones before count: the lease was kept alive, and a
// key that is missing is found by the next.
const maxUnread = 3

// passing reports whether a read that failed may succeed later.
func passing(err error) bool {
	return !errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrReset) && !failure.Definite(err)
}

// half ends when half of the time of ctx is over, so that what was done before can be returned in time.
func half(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}

// keysPerTxn is how many keys one transaction reads. etcd allows 128 operations.
const keysPerTxn = 100

// missing returns the claims whose keys are not there. The list of the lease is one call for any number of keys; what it
// lacks is read through a quorum.
func (se *session) missing(ctx context.Context, held map[uint64]claim) (missing []uint64, err error) {
	if len(held) == 0 {
		return nil, nil
	}
	attached, err := se.attached(ctx)
	if err != nil && !failure.LeaseMissing(err) {
		return nil, err
	}
	listed := make(map[string]bool, len(attached))
	for _, key := range attached {
		listed[key] = true
	}
	var doubted []uint64
	for seq, k := range held {
		if !listed[se.keyOf(k.name, k.slot)] {
			doubted = append(doubted, seq)
		}
	}
	for part := range slices.Chunk(doubted, keysPerTxn) {
		gone, err := se.absentOf(ctx, held, part)
		if err != nil {
			return nil, err
		}
		missing = append(missing, gone...)
	}
	return missing, nil
}

// absentOf reads which keys of claims are not there. A value of the session that is not the latest does not know: the latest may
// have removed them.
func (se *session) absentOf(ctx context.Context, held map[uint64]claim, part []uint64) (gone []uint64, err error) {
	ops := []clientv3.Op{se.readHandle()}
	for _, seq := range part {
		ops = append(ops, clientv3.OpGet(se.keyOf(held[seq].name, held[seq].slot), clientv3.WithKeysOnly()))
	}
	resp, err := se.commit(ctx, nil, ops, nil)
	if err != nil {
		return nil, err
	}
	handle := handleIn(resp, 0)
	switch {
	case handle == 0:
		return nil, driver.ErrGone
	case handle != se.claims.latest():
		return nil, nil
	}
	for i, seq := range part {
		if kvs := rangeOf(resp, i+1).Kvs; len(kvs) == 0 || kvs[0].CreateRevision != held[seq].created {
			gone = append(gone, seq)
		}
	}
	return gone, nil
}

// readHandle reads the handle of the session, which is there as long as the session.
func (se *session) readHandle() clientv3.Op {
	return clientv3.OpGet(se.s.parts.Keys.Handle(se.id), clientv3.WithKeysOnly())
}

// handleIn is the revision of the handle that was read, 0 if the session has ended.
func handleIn(resp *clientv3.TxnResponse, i int) int64 {
	for _, kv := range rangeOf(resp, i).Kvs {
		return kv.ModRevision
	}
	return 0
}

// Close implements driver.Session: the keys go with the lease.
func (se *session) Close(ctx context.Context) error {
	if err := se.Session.Close(ctx); err != nil {
		return fmt.Errorf("concurrencystore: %w", driver.Inner(err))
	}
	return nil
}
