// SPDX-License-Identifier: Apache-2.0

package k8slock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/k8slock"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// leaderElectionRecord is that of client-go.
type leaderElectionRecord struct {
	HolderIdentity       string    `json:"holderIdentity"`
	LeaseDurationSeconds int       `json:"leaseDurationSeconds"`
	AcquireTime          time.Time `json:"acquireTime"`
	RenewTime            time.Time `json:"renewTime"`
	LeaderTransitions    int       `json:"leaderTransitions"`
	Strategy             string    `json:"strategy"`
	PreferredHolder      string    `json:"preferredHolder"`
}

// resourceLock is resourcelock.Interface.
type resourceLock interface {
	Get(ctx context.Context) (*leaderElectionRecord, []byte, error)
	Create(ctx context.Context, r leaderElectionRecord) error
	Update(ctx context.Context, r leaderElectionRecord) error
	RecordEvent(string)
	Identity() string
	Describe() string
}

var _ resourceLock = (*k8slock.Lock[leaderElectionRecord])(nil)

type lock = k8slock.Lock[leaderElectionRecord]

func candidate(t *testing.T, c *fencelock.Client, identity string) (*lock, context.Context) {
	t.Helper()
	k, ctx, err := k8slock.New[leaderElectionRecord](t.Context(), c, "operator", &k8slock.Options{Identity: identity})
	must.OK(t, err)
	t.Cleanup(func() { _ = k.Close(context.Background()) })
	return k, ctx
}

// lead is what an elector writes to lead on.
func lead(k *lock) error {
	return k.Update(context.Background(), leaderElectionRecord{HolderIdentity: k.Identity(), LeaseDurationSeconds: 15})
}

func holder(t *testing.T, k *lock) string {
	t.Helper()
	r, _, err := k.Get(t.Context())
	must.OK(t, err)
	return r.HolderIdentity
}

// TestRecordOfTheLease: what an elector reads is who holds the lock, and what it writes
// acquires the lock, keeps it and gives it back.
func TestRecordOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		a, ctx := candidate(t, locktest.Client(t, store, nil), "a")
		b, _ := candidate(t, locktest.Client(t, store, nil), "b")
		if got := holder(t, a); got != "" || a.Lease() != nil {
			t.Errorf("a free lock is held by %q", got)
		}
		must.OK(t, lead(a))
		a.RecordEvent("became leader")
		if holder(t, a) != "a" || holder(t, b) != "a" || a.Lease() == nil {
			t.Errorf("held by %q and %q, want a", holder(t, a), holder(t, b))
		}
		locktest.Is(t, lead(b), fencelock.ErrBusy)
		_, before, _ := b.Get(t.Context())
		time.Sleep(time.Hour)
		r, after, err := b.Get(t.Context())
		if err != nil || string(before) == string(after) || time.Since(r.RenewTime) > time.Second || time.Since(r.AcquireTime) < time.Hour {
			t.Errorf("an hour later: %s, %v; want it renewed now", after, err)
		}
		if err := lead(a); err != nil || ctx.Err() != nil {
			t.Errorf("%v, %v", err, ctx.Err())
		}
		if err := a.Update(t.Context(), leaderElectionRecord{LeaseDurationSeconds: 1}); err != nil {
			t.Error(err)
		}
		locktest.Free(t, store, "operator")
		if err := lead(b); err != nil {
			t.Error(err)
		}
		if err := lead(a); err == nil || !strings.Contains(err.Error(), "use a new Lock") {
			t.Errorf("after the release: %v", err)
		}
		if !strings.Contains(a.Describe(), "operator (memory") {
			t.Error(a.Describe())
		}
	})
}

// TestALostLeaseStaysLost: the lock is free again after a loss, and the elector that lost it
// does not get it in the same term.
func TestALostLeaseStaysLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		a, ctx := candidate(t, c, "a")
		must.OK(t, lead(a))
		a.RecordEvent("became leader")
		if _, err := c.ForceUnlock(t.Context(), "operator", a.Lease().Token()); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		locktest.Is(t, context.Cause(ctx), fencelock.ErrLost)
		locktest.Free(t, store, "operator")
		_, _, err := a.Get(t.Context())
		locktest.Is(t, err, fencelock.ErrLost)
		locktest.Is(t, lead(a), fencelock.ErrLost)
		a.RecordEvent("stopped leading")
		locktest.Is(t, lead(a), fencelock.ErrLost)
		locktest.Free(t, store, "operator")
	})
}

// TestAStoppedElectorKeepsTheLock for its LeaseDuration, because its work may go on.
func TestAStoppedElectorKeepsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		a, ctx := candidate(t, c, "a")
		must.OK(t, lead(a))
		a.RecordEvent("became leader")
		a.RecordEvent("stopped leading")
		locktest.Ended(t, ctx)
		b, _ := candidate(t, c, "b")
		time.Sleep(14 * time.Second)
		locktest.Is(t, lead(b), fencelock.ErrBusy)
		time.Sleep(2 * time.Second)
		if err := lead(b); err != nil {
			t.Error(err)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
		locktest.Free(t, store, "operator")
		if err := lead(b); err == nil {
			t.Error("a closed Lock leads")
		}
	})
}

// TestTwoElectorsOfOneLock: each would take the lease for its own, so the term ends.
func TestTwoElectorsOfOneLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		a, ctx := candidate(t, locktest.Client(t, store, nil), "a")
		for range 2 {
			must.OK(t, lead(a))
			a.RecordEvent("became leader")
		}
		locktest.Ended(t, ctx)
		if err := lead(a); err == nil || !strings.Contains(err.Error(), "two electors use this Lock") {
			t.Error(err)
		}
		a.RecordEvent("stopped leading")
		time.Sleep(time.Minute)
		locktest.Free(t, store, "operator")
	})
}

// TestTwoProcessesOfOneIdentity: neither takes the lease of the other for its own.
func TestTwoProcessesOfOneIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		a, _ := candidate(t, locktest.Client(t, store, nil), "same")
		b, _ := candidate(t, locktest.Client(t, store, nil), "same")
		must.OK(t, lead(a))
		if got := holder(t, b); got == "same" {
			t.Errorf("held by %q", got)
		}
		locktest.Is(t, lead(b), fencelock.ErrBusy)
	})
}

// TestReleaseOfASilentStore: neither the record of the leader nor its release wait for a store
// that does not answer.
func TestReleaseOfASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, locktest.Faulty(t, store, `on(withdraw, nth(1, refuse))`), nil)
		a, _ := candidate(t, c, "a")
		must.OK(t, lead(a))
		if err := a.Update(t.Context(), leaderElectionRecord{}); err != nil {
			t.Errorf("client-go would repeat the release: %v", err)
		}
		time.Sleep(time.Minute)
		locktest.Free(t, store, "operator")
	})
}

// TestNewRefuses what is not a record, and Update what names another candidate.
func TestNewRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.Client(t, memstore.New(nil), nil)
		if _, _, err := k8slock.New[struct{}](t.Context(), c, "operator", nil); err == nil || !strings.Contains(err.Error(), "write New[resourcelock.LeaderElectionRecord]") {
			t.Error(err)
		}
		if _, _, err := k8slock.New[string](t.Context(), c, "operator", nil); err == nil {
			t.Error("a string is a record")
		}
		a, _ := candidate(t, c, "")
		b, _ := candidate(t, c, "")
		if a.Identity() == b.Identity() {
			t.Errorf("two candidates are %q", a.Identity())
		}
		if err := a.Create(t.Context(), leaderElectionRecord{HolderIdentity: b.Identity()}); err == nil || !strings.Contains(err.Error(), "one Lock for each candidate") {
			t.Error(err)
		}
	})
}
