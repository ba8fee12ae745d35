// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lock"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// hold is a lease that ends with a MinHold, a MaxHold or a KeepFor. No session keeps
// it alive, and a key on it is gone when the time is over, whatever becomes of the
// processes. Its lease is never revoked: it ends soon, and a revocation would cost
// as much as an acquisition.
type hold struct {
	sent time.Time // before it was asked for
	ends time.Time // by our clock, to drop it
}

// holdKeys are the leases for one claim that a step grants.
type holdKeys struct {
	max, min int64
	seconds  map[string]int64
}

// holdFor asks for a lease of at least d. It begins before the grant it is for, so
// what is left of it is never overstated.
func (s *Store) holdFor(ctx context.Context, d time.Duration) (id, ttl int64, err error) {
	if err := lease.Before(ctx); err != nil {
		return 0, 0, err
	}
	sent := time.Now()
	resp, err := s.cluster.Leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: lease.Seconds(d)})
	if err != nil {
		return 0, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, h := range s.holds {
		if sent.After(h.ends) {
			delete(s.holds, id)
		}
	}
	s.holds[resp.ID] = hold{sent, sent.Add(time.Duration(resp.TTL+1) * time.Second)}
	return resp.ID, resp.TTL, nil
}

// holdsFor asks for the leases of what a step grants.
func (s *Store) holdsFor(ctx context.Context, st *step) error {
	for _, pr := range st.plan.Promote {
		if pr.Value.MaxHold == 0 && pr.Value.MinHold == 0 {
			continue
		}
		h := holdKeys{seconds: map[string]int64{}}
		var err error
		if pr.Value.MaxHold > 0 {
			h.max, h.seconds[lock.EndMax], err = s.holdFor(ctx, pr.Value.MaxHold)
		}
		if pr.Value.MinHold > 0 && err == nil {
			h.min, h.seconds[lock.EndMin], err = s.holdFor(ctx, pr.Value.MinHold)
		}
		if err != nil {
			return err
		}
		if st.holds == nil {
			st.holds = map[driver.ClaimID]holdKeys{}
		}
		st.holds[pr.ID] = h
	}
	return nil
}

// remaining returns how much of a MaxHold is left at least.
func (s *Store) remaining(ctx context.Context, lease int64, maxHold time.Duration) (time.Duration, error) {
	s.mu.Lock()
	h, known := s.holds[lease]
	s.mu.Unlock()
	if known {
		return max(1, maxHold-time.Since(h.sent)), nil
	}
	left, granted, err := s.timeToLive(ctx, lease)
	// The lease was rounded up; what it has more than the hold is not the holder's.
	return max(1, left-(granted-maxHold)), err
}

// timeToLive returns what is left of a lease, rounded down to seconds by etcd, and
// what it had. Both are 0 for one that has ended.
func (s *Store) timeToLive(ctx context.Context, id int64) (left, granted time.Duration, err error) {
	resp, err := s.cluster.Leases.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: id})
	if err != nil {
		if lease.LeaseMissing(err) {
			err = nil
		}
		return 0, 0, err
	}
	return time.Duration(max(0, resp.TTL)) * time.Second, time.Duration(resp.GrantedTTL) * time.Second, nil
}
