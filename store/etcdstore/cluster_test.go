// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/measure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
)

// process returns a fencelock client with its own connection.
func process(t *testing.T, cluster *etcdtest.Cluster, ttl time.Duration) *fencelock.Client {
	t.Helper()
	store, err := etcdstore.New(cluster.Connect(t), nil)
	must.OK(t, err)
	c, err := fencelock.New(store, &fencelock.Options{TTL: ttl, Require: fencelock.Correctness})
	must.OK(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Close(ctx) // the servers of some tests are gone by then
	})
	return c
}

// expectHandoff holds a lock, lets another process wait for it, lets something happen
// to the cluster, and then expects that the lease lived on and is handed off.
func expectHandoff(t *testing.T, cluster *etcdtest.Cluster, happens func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	const ttl = 20 * time.Second
	a, b := process(t, cluster, ttl), process(t, cluster, ttl)
	held, err := a.Mutex("x").Lock(ctx)
	must.OK(t, err)
	type result struct {
		lease *fencelock.Lease
		err   error
	}
	got := make(chan result, 1)
	go func() {
		l, err := b.Mutex("x").Lock(ctx)
		got <- result{l, err}
	}()
	waitFor(t, ctx, cluster, "x", func(st driver.Status) bool { return st.Waiting == 1 })
	happens(ctx)
	if _, err := a.Mutex("y").Lock(ctx); err != nil {
		t.Fatalf("locking after it: %v", err)
	}
	if err := held.Err(); err != nil {
		t.Fatalf("the lease was lost: %v", err)
	}
	// A member may take the answer with it, and etcd's client does not repeat a write that
	// it sent: the unlock is then not confirmed, and repeated by the library in the
	// background. Nothing is lost.
	if err := held.Unlock(ctx); errors.Is(err, fencelock.ErrLost) {
		t.Errorf("unlock: %v", err)
	}
	r := <-got
	if r.err != nil {
		t.Fatalf("waiting through it: %v", r.err)
	}
	l := r.lease
	if l.Token() <= held.Token() {
		t.Errorf("token %v after %v", l.Token(), held.Token())
	}
	if err := l.Unlock(ctx); errors.Is(err, fencelock.ErrLost) {
		t.Errorf("the second unlock: %v", err)
	}
}

// waitFor reads a lock until it is as wanted.
func waitFor(t *testing.T, ctx context.Context, cluster *etcdtest.Cluster, name string, ok func(driver.Status) bool) {
	t.Helper()
	store, err := etcdstore.New(cluster.Connect(t), nil)
	must.OK(t, err)
	for {
		st, err := store.Inspect(ctx, name)
		if err == nil && ok(st) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("lock %q is %+v, %v", name, st, err)
		}
	}
}

// TestLeaderKilled: a lease and a wait outlive the leader.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 3)
	expectHandoff(t, cluster, func(ctx context.Context) {
		leader, err := cluster.Leader(ctx)
		must.OK(t, err)
		leader.Kill()
	})
}

// TestMemberPaused: a lease and a wait outlive a member that stops without a word.
func TestMemberPaused(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 3)
	expectHandoff(t, cluster, func(ctx context.Context) {
		leader, err := cluster.Leader(ctx)
		must.OK(t, err)
		for _, m := range cluster.Members {
			if m != leader {
				t.Cleanup(m.Pause())
				return
			}
		}
	})
}

// TestLeaderPaused is TestMemberPaused with the leader.
func TestLeaderPaused(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 3)
	expectHandoff(t, cluster, func(ctx context.Context) {
		leader, err := cluster.Leader(ctx)
		must.OK(t, err)
		t.Cleanup(leader.Pause())
	})
}

// TestHolderDies: no process hands the lock off, and the next in the queue learns of it
// from the watch of the one in front, long before it would look by itself.
func TestHolderDies(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	store, err := etcdstore.New(cluster.Connect(t), nil)
	must.OK(t, err)
	// Two sessions that are not kept alive: the holder and the first in the queue.
	terms := &driver.Terms{Weight: 1, Record: &driver.Record{Owner: "dead"}}
	for i := range 2 {
		s, _, err := store.Open(ctx, driver.OpenRequest{Shard: store.Shard("x"), ID: driver.NewSessionID(), TTL: 4 * time.Second})
		must.OK(t, err)
		out, err := s.Attempt(ctx, &driver.Claim{Seq: 1, Name: "x", Terms: terms, Queue: true})
		if want := []driver.State{driver.Granted, driver.Queued}[i]; err != nil || out.State != want {
			t.Fatalf("attempt %d: %v, %v; want %v", i, out.State, err, want)
		}
	}
	began := time.Now()
	l, err := process(t, cluster, time.Minute).Mutex("x").Lock(ctx)
	must.OK(t, err)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v to follow two dead sessions of 4 s", took)
	}
	if err := l.Unlock(ctx); err != nil {
		t.Error(err)
	}
}

// TestThousandLeasesOneHeartbeat counts at the server.
func TestThousandLeasesOneHeartbeat(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // a thousand locks, one after the other
	defer cancel()
	cluster := etcdtest.Start(t, 1)
	store, err := etcdstore.New(cluster.Connect(t), nil)
	must.OK(t, err)
	counter := measure.NewCounter(store)
	locks, err := fencelock.New(counter, &fencelock.Options{TTL: 6 * time.Second})
	must.OK(t, err)
	defer locks.Close(t.Context())
	for i := range 1000 {
		if _, err := locks.Mutex(fmt.Sprint("lock/", i)).Lock(ctx); err != nil {
			t.Fatal(err)
		}
	}
	// after returns how many the server has counted once the client has sent n more.
	after := func(n int) float64 {
		must.OK(t, counter.Await(ctx, n))
		counted, err := cluster.Members[0].Metric(ctx, servers.EtcdRenewals)
		must.OK(t, err)
		return counted
	}
	before := after(1)
	// On a busy machine further keep-alives come before the server is asked, and some are repeated.
	if n := after(2) - before; n < 2 || n > 20 {
		t.Errorf("the server counts %v renewals for 2 keep-alives of a process with 1000 leases, want 2 or a few more, and not one for each lease", n)
	}
}

// TestLowerRevisionIsRefused: a cluster that was restored without raising its
// revision would give out tokens a second time.
func TestLowerRevisionIsRefused(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	store, err := etcdstore.New(cluster.Connect(t), nil)
	must.OK(t, err)
	open := func() (driver.Session, error) {
		s, _, err := store.Open(ctx, driver.OpenRequest{Shard: store.Shard("x"), ID: driver.NewSessionID(), TTL: 30 * time.Second})
		return s, err
	}
	s, err := open()
	must.OK(t, err)
	snapshot, err := cluster.Snapshot()
	must.OK(t, err)
	terms := &driver.Terms{Weight: 1, Record: &driver.Record{}}
	for seq := range uint64(5) {
		if _, err := s.Attempt(ctx, &driver.Claim{Seq: seq + 1, Name: fmt.Sprint("x", seq), Terms: terms}); err != nil {
			t.Fatal(err)
		}
	}
	must.OK(t, cluster.Restore(snapshot))
	for err = driver.ErrUnavailable; errors.Is(err, driver.ErrUnavailable) && ctx.Err() == nil; { // until it is connected again
		_, err = s.KeepAlive(ctx)
	}
	if !errors.Is(err, driver.ErrReset) {
		t.Errorf("keep-alive: %v, want ErrReset", err)
	}
	if _, err := open(); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("open: %v, want ErrRefused", err)
	}
}
