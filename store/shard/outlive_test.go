// SPDX-License-Identifier: Apache-2.0

package shard_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/shard"
)

// lasting returns a client whose leases last so long.
func lasting(t *testing.T, s driver.Store, ttl time.Duration) *fencelock.Client {
	t.Helper()
	c, err := fencelock.New(s, &fencelock.Options{TTL: ttl, StoreTimeout: time.Millisecond})
	must.OK(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// outlived returns by how much leases outlive the marker of the member that keeps them, at most,
// looking at it for a time.
func outlived(t *testing.T, mems map[string]*memstore.Store, leases map[string][]*fencelock.Lease, during time.Duration) (most time.Duration) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for member, list := range leases {
			st, err := mems[member].Inspect(t.Context(), ".shard/members")
			if err != nil || len(st.Holders) != 1 {
				t.Fatalf("the marker at %s: %+v, %v", member, st, err)
			}
			for _, l := range list {
				if !l.Valid() {
					t.Fatalf("the lease of %q at %s was lost: %v", l.Name(), member, l.Err())
				}
				most = max(most, time.Until(l.Deadline())-st.Holders[0].EndsIn)
			}
		}
	}
	return most
}

// TestMarkersOutliveTheLeases: at any moment a process that is cut off has lost its leases at a member
// before its marker there ends, and a process with another list is let in.
func TestMarkersOutliveTheLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mems := map[string]*memstore.Store{"a": memstore.New(nil), "b": memstore.New(nil), "c": memstore.New(nil)}
		var members []shard.Member
		for name, mem := range mems {
			members = append(members, shard.Member{Name: name, Store: mem})
		}
		s := made(t, members...)
		leases := map[string][]*fencelock.Lease{}
		one, two := lasting(t, s, 6*time.Second), lasting(t, s, 6*time.Second)
		for i := 0; len(leases["a"]) < 2 || len(leases["b"]) < 2 || len(leases["c"]) < 2; i++ {
			name := fmt.Sprint("n", i)
			at := s.Owner(name)
			// Two clients have two sessions at a member, which begin at different times.
			if n := len(leases[at]); n < 2 {
				leases[at] = append(leases[at], lock(t, []*fencelock.Client{one, two}[n], name))
				time.Sleep(700 * time.Millisecond)
			}
		}
		if by := outlived(t, mems, leases, 2*time.Minute); by > 0 {
			t.Errorf("a lease is trusted for %v longer than its marker lives", by)
		}
	})
}

// TestMarkersOutliveTheLongestLease: one of two clients of a process has a longer TTL, whichever was first.
func TestMarkersOutliveTheLongestLease(t *testing.T) {
	for _, ttls := range [][2]time.Duration{{4 * time.Second, 20 * time.Second}, {20 * time.Second, 4 * time.Second}} {
		t.Run(fmt.Sprint(ttls), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mems := map[string]*memstore.Store{"a": memstore.New(nil)}
				s := made(t, shard.Member{Name: "a", Store: mems["a"]})
				first := lock(t, lasting(t, s, ttls[0]), "x")
				time.Sleep(300 * time.Millisecond)
				second := lock(t, lasting(t, s, ttls[1]), "y")
				if by := outlived(t, mems, map[string][]*fencelock.Lease{"a": {first, second}}, 2*time.Minute); by > 0 {
					t.Errorf("a lease is trusted for %v longer than its marker lives", by)
				}
			})
		})
	}
}

// TestHolderThatIsCutOffIsOutInTime: whenever a holder is cut off from all members, its lease has ended
// when a process with the next list gets the name.
func TestHolderThatIsCutOffIsOutInTime(t *testing.T) {
	const ttl = 6 * time.Second
	for cut := 3 * ttl; cut < 4*ttl; cut += ttl / 16 {
		synctest.Test(t, func(t *testing.T) {
			a, b, c := memstore.New(nil), memstore.New(nil), memstore.New(nil)
			cutOff := func(s driver.Store) driver.Store {
				w, err := faultstore.Wrap(s, faultstore.MustParse(fmt.Sprintf("during(%v, 1h, fail)", cut)), nil)
				must.OK(t, err)
				return w
			}
			old := made(t, shard.Member{Name: "a", Store: cutOff(a)}, shard.Member{Name: "b", Store: cutOff(b)})
			joining := made(t, shard.Member{Name: "a", Store: a}, shard.Member{Name: "b", Store: b}, shard.Member{Name: "c", Store: c, Change: shard.Joins})
			moves := movingName(old, joining, "b", "c")
			holder, other := lasting(t, old, ttl), lasting(t, joining, ttl)
			lock(t, holder, nameAt(old, "a"))
			time.Sleep(ttl / 5)
			l := lock(t, holder, moves)
			time.Sleep(cut - ttl/5)
			for try(t, other, moves) != nil {
				time.Sleep(20 * time.Millisecond)
			}
			if l.Valid() {
				t.Errorf("cut off after %v: the name is granted to another process, the lease is trusted for another %v", cut, time.Until(l.Deadline()))
			}
		})
	}
}

// movingName returns a name that is at one member of a list, and at another of the next list.
func movingName(old, next *shard.Store, from, to string) string {
	for i := 0; ; i++ {
		if name := fmt.Sprint("n", i); old.Owner(name) == from && next.Owner(name) == to {
			return name
		}
	}
}

// markless is a member that loses its markers, and not the sessions of locks, as a cluster does of which
// one server lost its data.
type markless struct {
	driver.Store
	lost   atomic.Bool
	marker driver.SessionID // opened first
}

func (m *markless) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	if m.marker == (driver.SessionID{}) {
		m.marker = req.ID
	}
	if req.ID == m.marker && m.lost.Load() {
		return nil, driver.Renewal{}, driver.ErrUnavailable
	}
	ss, renewal, err := m.Store.Open(ctx, req)
	if req.ID == m.marker && err == nil {
		ss = &marklessSession{ss, m}
	}
	return ss, renewal, err
}

type marklessSession struct {
	driver.Session
	m *markless
}

func (s *marklessSession) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	if s.m.lost.Load() {
		return driver.Renewal{}, driver.ErrReset
	}
	return s.Session.KeepAlive(ctx)
}

// TestNothingIsGrantedWithoutAMarker: while a member has lost the marker and does not take it back, its
// sessions are not renewed and get no lock.
func TestNothingIsGrantedWithoutAMarker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &markless{Store: memstore.New(nil)}
		s := made(t, shard.Member{Name: "a", Store: m})
		ss, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: 10 * time.Second})
		must.OK(t, err)
		claim := &driver.Claim{Seq: 1, Name: "x", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
		m.lost.Store(true)
		time.Sleep(3 * time.Second)
		_, err = ss.KeepAlive(t.Context())
		wantErr(t, "a keep-alive without the marker", err, driver.ErrUnavailable, "cannot be marked")
		_, err = ss.Attempt(t.Context(), claim)
		wantErr(t, "a claim without the marker", err, driver.ErrUnavailable, "cannot be marked")
		m.lost.Store(false)
		if out, err := ss.Attempt(t.Context(), claim); err != nil || out.State != driver.Granted {
			t.Errorf("with the marker: %v, %v, want a grant", out.State, err)
		}
		if err := ss.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestMarkWithALostReplyIsNotKept: a mark that the member may have granted ends with its session, so it
// does not stay beside the mark that the process takes next.
func TestMarkWithALostReplyIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := memstore.New(nil)
		lossy, err := faultstore.Wrap(a, faultstore.MustParse("on(attempt, nth(1, lose(reply)))"), nil)
		must.OK(t, err)
		s := made(t, shard.Member{Name: "a", Store: lossy}, shard.Member{Name: "b", Store: memstore.New(nil), Change: shard.Joins},
			shard.Member{Name: "c", Store: memstore.New(nil)})
		c := lasting(t, s, 15*time.Second)
		lock(t, c, nameAt(s, "c"))             // keeps the other markers
		for try(t, c, nameAt(s, "b")) != nil { // it adopts the list after the change
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Second) // less than a TTL
		if st, err := a.Inspect(t.Context(), ".shard/change"); err != nil || len(st.Holders) != 0 {
			t.Errorf("the mark of the change: %+v, %v, want none", st.Holders, err)
		}
		if st, err := a.Inspect(t.Context(), ".shard/members"); err != nil || len(st.Holders) != 1 {
			t.Errorf("the mark of the list: %+v, %v, want one", st.Holders, err)
		}
	})
}
