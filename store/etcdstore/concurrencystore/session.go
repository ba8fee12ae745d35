// SPDX-License-Identifier: Apache-2.0

package concurrencystore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/failure"
	"github.com/fencelock/fencelock/store/etcdstore/internal/share"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// session is a session of etcdstore, on whose lease the claims are.
type session struct {
	driver.Session
	s       *Store
	id      driver.SessionID
	lease   int64
	cluster uint64

	mu sync.Mutex
	// slots has, by the name of the lock, which claim uses which key. A slot is used again, because etcd scans all keys that ever
	// were in a range until the next compaction.
	slots map[string][]uint64
	// granted has the claims that hold their lock.
	granted map[uint64]grant
	// earlier are the claims that the session had when it was opened, and that were not asked about since.
	earlier map[uint64]string // the name of the lock, by the number
}

// grant is a claim that holds its lock.
type grant struct {
	key     string
	created int64
}

func newSession(s *Store, base driver.Session, id driver.SessionID) *session {
	return &session{Session: base, s: s, id: id, lease: share.Lease(id),
		slots: map[string][]uint64{}, granted: map[uint64]grant{}, earlier: map[uint64]string{}}
}

// load finds the claims of a session that was open before.
func (se *session) load(ctx context.Context) error {
	attached, err := se.attached(ctx)
	if err != nil {
		return err
	}
	resp, err := se.s.client.Get(ctx, se.s.keys.Session(se.id), clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	se.cluster = resp.Header.ClusterId
	ending := fmt.Sprintf("/%x", se.lease)
	for _, key := range attached {
		at := strings.LastIndex(key, "/")
		if at < 0 || !strings.HasPrefix(key[at:], ending) || !strings.HasPrefix(key, se.s.prefix) {
			continue
		}
		resp, err := se.s.client.Get(ctx, key)
		if err != nil {
			return err
		}
		for _, kv := range resp.Kvs {
			if e := read(kv); e.ours && e.id.Session == se.id {
				se.found(key[len(se.s.prefix):at], strings.TrimPrefix(key[at:], ending), e.id.Seq)
			}
		}
	}
	return nil
}

// found notes a claim from before.
func (se *session) found(name, ending string, seq uint64) {
	slot := 0
	if ending != "" {
		slot, _ = strconv.Atoi(strings.TrimPrefix(ending, "."))
	}
	for len(se.slots[name]) <= slot {
		se.slots[name] = append(se.slots[name], 0)
	}
	se.slots[name][slot] = seq
	se.earlier[seq] = name
}

// attached returns the keys on the session's lease.
func (se *session) attached(ctx context.Context) ([]string, error) {
	resp, err := se.s.client.TimeToLive(ctx, clientv3.LeaseID(se.lease), clientv3.WithAttachedKeys())
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(resp.Keys))
	for i, k := range resp.Keys {
		keys[i] = string(k)
	}
	return keys, nil
}

// key returns the key of a claim: that of the lease, as the others write it, or with a number if the session has
// another claim for the lock.
func (se *session) key(name string, seq uint64) string {
	se.mu.Lock()
	defer se.mu.Unlock()
	used := se.slots[name]
	slot := slices.Index(used, seq)
	if slot < 0 {
		if slot = slices.Index(used, 0); slot < 0 {
			slot = len(used)
			used = append(used, 0)
		}
		used[slot] = seq
		se.slots[name] = used
	}
	delete(se.earlier, seq)
	return se.inSlot(name, slot)
}

// slotKey returns the key that a claim uses, or "" if it has none.
func (se *session) slotKey(name string, seq uint64) string {
	se.mu.Lock()
	defer se.mu.Unlock()
	if slot := slices.Index(se.slots[name], seq); slot >= 0 {
		return se.inSlot(name, slot)
	}
	return ""
}

func (se *session) inSlot(name string, slot int) string {
	key := fmt.Sprintf("%s%x", se.s.under(name), se.lease)
	if slot > 0 {
		key += "." + strconv.Itoa(slot)
	}
	return key
}

// free makes the key of a claim that is gone available.
func (se *session) free(name string, seq uint64) {
	se.mu.Lock()
	defer se.mu.Unlock()
	delete(se.granted, seq)
	used := se.slots[name]
	if slot := slices.Index(used, seq); slot >= 0 {
		used[slot] = 0
	}
	if !slices.ContainsFunc(used, func(seq uint64) bool { return seq != 0 }) {
		delete(se.slots, name)
	}
}

// holds notes that a claim holds its lock.
func (se *session) holds(seq uint64, g grant) {
	se.mu.Lock()
	defer se.mu.Unlock()
	se.granted[seq] = g
}

// commit sends a transaction of the session.
func (se *session) commit(ctx context.Context, ifs []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	if err := failure.Before(ctx); err != nil {
		return nil, err
	}
	resp, err := se.s.client.Txn(ctx).If(ifs...).Then(then...).Else(otherwise...).Commit()
	switch {
	case failure.LeaseMissing(err):
		return nil, driver.ErrGone
	case err != nil:
		return nil, err
	case resp.Header.ClusterId != se.cluster:
		return nil, fmt.Errorf("cluster %x answers, the session was opened on %x: %w", resp.Header.ClusterId, se.cluster, driver.ErrReset)
	}
	return resp, nil
}

// KeepAlive implements driver.Session. A claim whose key another program deleted is reported as broken.
func (se *session) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	se.mu.Lock()
	held := make(map[string]uint64, len(se.granted))
	for seq, g := range se.granted {
		held[g.key] = seq
	}
	se.mu.Unlock()
	renewal, err := se.Session.KeepAlive(ctx)
	if err != nil {
		return driver.Renewal{}, fmt.Errorf("concurrencystore: %w", driver.Inner(err))
	}
	if len(held) == 0 {
		return renewal, nil
	}
	attached, err := se.attached(ctx)
	if err != nil {
		return driver.Renewal{}, se.s.fail(ctx, "keep alive", err, failure.Reading)
	}
	for _, key := range attached {
		delete(held, key)
	}
	for _, seq := range held {
		renewal.Broken = append(renewal.Broken, seq)
	}
	slices.Sort(renewal.Broken)
	renewal.Broken = slices.Compact(renewal.Broken)
	return renewal, nil
}

// Reclaim implements driver.Session. etcd does not lose data, so nothing is put back: a grant is held if it is there. What a
// restored cluster has too much, the last call removes.
func (se *session) Reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	kept, err := se.reclaim(ctx, held, last)
	if err != nil {
		return nil, se.s.fail(ctx, "reclaim", err, failure.Writing)
	}
	if _, err := se.Session.Reclaim(ctx, nil, last); err != nil {
		return nil, fmt.Errorf("concurrencystore: %w", driver.Inner(err))
	}
	return kept, nil
}

func (se *session) reclaim(ctx context.Context, held []driver.Held, last bool) ([]bool, error) {
	kept := make([]bool, len(held))
	for i, h := range held {
		out, err := se.position(ctx, &h.Claim)
		if err != nil {
			return nil, err
		}
		kept[i] = out.State == driver.Granted && out.Token == h.Token.Base()
	}
	if !last {
		return kept, nil
	}
	se.mu.Lock()
	stale := make(map[uint64]string, len(se.earlier))
	for seq, name := range se.earlier {
		stale[seq] = name
	}
	se.mu.Unlock()
	for seq, name := range stale {
		if _, err := se.withdraw(ctx, driver.Withdrawal{Seq: seq, Name: name}); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// Close implements driver.Session: the keys go with the lease.
func (se *session) Close(ctx context.Context) error {
	if err := se.Session.Close(ctx); err != nil {
		return fmt.Errorf("concurrencystore: %w", driver.Inner(err))
	}
	return nil
}
