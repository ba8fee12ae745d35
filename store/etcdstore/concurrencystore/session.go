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
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// session is a session of the cluster, on whose lease the claims are.
type session struct {
	*lease.Session
	s      *Store
	claims *claims
	// unread is how many renewals in a row could not read which keys are there.
	unread atomic.Int32
}

// own makes this value of the session the latest: it writes the handle of the session. A write of an earlier value
// compares the handle, so an attempt that is still under way from there adds no key.
func (se *session) own(ctx context.Context) error {
	handle := se.C.Keys.Handle(se.ID)
	resp, err := se.C.Commit(ctx, nil, []*pb.Compare{lease.There(se.C.Keys.Session(se.ID))},
		[]*pb.RequestOp{lease.Get(handle), lease.Put(handle, nil, se.Lease)}, nil)
	switch {
	case lease.LeaseMissing(err), err == nil && !resp.Succeeded:
		return fmt.Errorf("the session ended while it was opened: %w", driver.ErrUnavailable)
	case err != nil:
		return err
	}
	se.claims.opened(resp.Header.Revision, len(rangeOf(resp, 0).Kvs) > 0)
	return nil
}

// ownKey is the key of the session's first claim for a lock. The keys of its other claims have a dot and a number behind it.
func (se *session) ownKey(name string) string { return fmt.Sprintf("%s%x", se.s.under(name), se.Lease) }

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
func (se *session) commit(ctx context.Context, ifs []*pb.Compare, then, otherwise []*pb.RequestOp) (*pb.TxnResponse, error) {
	resp, err := se.C.Commit(ctx, se.Session, ifs, then, otherwise)
	if lease.LeaseMissing(err) {
		return nil, driver.ErrGone
	}
	return resp, err
}

// KeepAlive implements driver.Session. A claim whose key another program deleted is reported as broken. Which keys are there is
// read after the lease was kept alive, and a renewal that succeeded counts even if that fails.
func (se *session) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	held := se.claims.held()
	renewal, err := se.Session.KeepAlive(ctx)
	if err != nil {
		return driver.Renewal{}, err
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
		return driver.Renewal{}, se.C.Fail(reading, "keep alive", err, lease.Reading)
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
	return !errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrReset) && !lease.Definite(err)
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
	attached, err := se.Attached(ctx)
	if err != nil && !lease.LeaseMissing(err) {
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
	ops := []*pb.RequestOp{se.readHandle()}
	for _, seq := range part {
		ops = append(ops, lease.Head(se.keyOf(held[seq].name, held[seq].slot)))
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
func (se *session) readHandle() *pb.RequestOp {
	return lease.Head(se.C.Keys.Handle(se.ID))
}

// handleIn is the revision of the handle that was read, 0 if the session has ended.
func handleIn(resp *pb.TxnResponse, i int) int64 {
	for _, kv := range rangeOf(resp, i).Kvs {
		return kv.ModRevision
	}
	return 0
}

// Close implements driver.Session: the keys go with the lease.
func (se *session) Close(ctx context.Context) error {
	err := lease.Before(ctx)
	if err == nil {
		se.End()
		err = se.Revoke(ctx)
	}
	if err != nil && !lease.LeaseMissing(err) {
		return se.C.Fail(ctx, "close", err, lease.Writing)
	}
	return nil
}
