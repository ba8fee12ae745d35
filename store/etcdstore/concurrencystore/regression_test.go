// SPDX-License-Identifier: Apache-2.0

package concurrencystore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore/concurrencystore"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
)

// TestRestoreToOlderDataIsNoticed: a cluster that was restored without raising its revision keeps its id. It would grant with
// tokens below earlier ones.
func TestRestoreToOlderDataIsNoticed(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	store := storeOf(t, cluster.Connect(t))
	ses := open(t, store, driver.NewSessionID())
	snapshot, err := cluster.Snapshot()
	must.OK(t, err)
	var last driver.Token
	for seq := range uint64(5) {
		last = attempt(t, ses, claim(seq+1, fmt.Sprint("x", seq)), driver.Granted).Token
	}
	must.OK(t, cluster.Restore(snapshot))
	_, err = cluster.Connect(t).Get(t.Context(), "any") // it answers again
	must.OK(t, err)
	for what, do := range map[string]func() error{
		"Attempt": func() error {
			out, err := ses.Attempt(t.Context(), claim(9, "y"))
			if err == nil {
				t.Errorf("claim 9 is %v with token %v after %v", out.State, out.Token, last)
			}
			return err
		},
		"Inspect": func() error { _, err := store.Inspect(t.Context(), "x0"); return err },
		"Break":   func() error { _, err := store.Break(t.Context(), "x0", last); return err },
	} {
		if err := answered(t, do); !errors.Is(err, driver.ErrReset) {
			t.Errorf("%s: %v, want ErrReset", what, err)
		}
	}
	_, _, err = store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 30 * time.Second})
	if !errors.Is(err, driver.ErrRefused) {
		t.Errorf("Open: %v, want ErrRefused", err)
	}
}

// TestUnlockOfADeletedKeyIsReported: another program deletes the key of a holder, who unlocks before the next renewal.
func TestUnlockOfADeletedKeyIsReported(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	ses := open(t, storeOf(t, cluster.Connect(t)), driver.NewSessionID())
	attempt(t, ses, claim(1, "a"), driver.Granted)
	attempt(t, ses, claim(2, "b"), driver.Granted)
	_, err := cluster.Connect(t).Delete(t.Context(), prefix+"a/", clientv3.WithPrefix())
	must.OK(t, err)
	for range 2 {
		withdraw(t, ses, driver.Withdrawal{Seq: 1, Name: "a"}, driver.WasBroken)
	}
	withdraw(t, ses, driver.Withdrawal{Seq: 2, Name: "b"}, driver.WasGranted)
	withdraw(t, ses, driver.Withdrawal{Seq: 2, Name: "b"}, driver.WasAbsent)
	renewal, err := ses.KeepAlive(t.Context())
	if err != nil || len(renewal.Broken) > 0 {
		t.Errorf("the renewal after the withdrawals: %+v, %v", renewal, err)
	}
}

// TestUnlockedKeyIsNotReportedAsBroken: a renewal reads the keys while the reply of an unlock is on its way.
func TestUnlockedKeyIsNotReportedAsBroken(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	w := &wire{}
	ses := open(t, storeOf(t, w.connect(t, cluster)), driver.NewSessionID())
	attempt(t, ses, claim(1, "a"), driver.Granted)
	renewed := make(chan driver.Renewal, 1)
	reading, deleted := make(chan struct{}), make(chan struct{})
	// Once each: the client repeats a call that a busy server did not begin.
	closeReading, closeDeleted := sync.OnceFunc(func() { close(reading) }), sync.OnceFunc(func() { close(deleted) })
	w.set(func(ctx context.Context, c call, do func(context.Context) error) error {
		if c.method == "LeaseTimeToLive" {
			closeReading() // the renewal has noted what is held
			<-deleted
		}
		err := do(ctx)
		if c.writes(prefix+"a/", true) {
			closeDeleted()
			if renewal := <-renewed; len(renewal.Broken) > 0 {
				t.Errorf("the renewal reports %v as broken", renewal.Broken)
			}
		}
		return err
	})
	go func() {
		renewal, err := ses.KeepAlive(t.Context())
		if err != nil {
			t.Error(err)
		}
		renewed <- renewal
	}()
	within(t, "the renewal", reading)
	withdraw(t, ses, driver.Withdrawal{Seq: 1, Name: "a"}, driver.WasGranted)
}

// TestStaleListOfKeysBreaksNothing: etcd lists the keys of a lease from the memory of a leader, which may be behind.
func TestStaleListOfKeysBreaksNothing(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	w := &wire{}
	ses := open(t, storeOf(t, w.connect(t, cluster)), driver.NewSessionID())
	attempt(t, ses, claim(1, "a"), driver.Granted)
	w.set(func(ctx context.Context, c call, do func(context.Context) error) error {
		err := do(ctx)
		if r, ok := c.reply.(*pb.LeaseTimeToLiveResponse); ok {
			r.Keys = nil
		}
		return err
	})
	renewal, err := ses.KeepAlive(t.Context())
	if err != nil || len(renewal.Broken) > 0 {
		t.Errorf("the renewal: %+v, %v; want no broken claim", renewal, err)
	}
	withdraw(t, ses, driver.Withdrawal{Seq: 1, Name: "a"}, driver.WasGranted)
}

// TestLeaseThatEndsDuringARenewalIsGone: that is the end of the session, and not a broken lock.
func TestLeaseThatEndsDuringARenewalIsGone(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	w, other := &wire{}, cluster.Connect(t)
	id := driver.NewSessionID()
	ses := open(t, storeOf(t, w.connect(t, cluster)), id)
	attempt(t, ses, claim(1, "a"), driver.Granted)
	w.set(func(ctx context.Context, c call, do func(context.Context) error) error {
		if c.method == "LeaseTimeToLive" {
			_, err := other.Revoke(ctx, clientv3.LeaseID(lease.Number(id)))
			must.OK(t, err)
		}
		return do(ctx)
	})
	if renewal, err := ses.KeepAlive(t.Context()); !errors.Is(err, driver.ErrGone) {
		t.Errorf("the renewal: %+v, %v; want ErrGone", renewal, err)
	}
}

// TestWrappedClientIsRefused: sessions and claims must be under the same keys.
func TestWrappedClientIsRefused(t *testing.T) {
	for what, wrap := range map[string]func(*clientv3.Client){
		"KV":      func(c *clientv3.Client) { c.KV = namespace.NewKV(c.KV, "tenant/") },
		"Lease":   func(c *clientv3.Client) { c.Lease = namespace.NewLease(c.Lease, "tenant/") },
		"Watcher": func(c *clientv3.Client) { c.Watcher = namespace.NewWatcher(c.Watcher, "tenant/") },
	} {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}})
		must.OK(t, err)
		wrap(client)
		if _, err := concurrencystore.New(client, nil); err == nil || !strings.Contains(err.Error(), "the "+what+" of the client was replaced") {
			t.Errorf("a client with another %s: %v", what, err)
		}
		_ = client.Close()
	}
}

// TestCorrectnessNeedsFencedPeers: a holder with another library that writes without a token cannot be fenced.
func TestCorrectnessNeedsFencedPeers(t *testing.T) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}})
	must.OK(t, err)
	defer client.Close()
	for fenced, want := range map[bool]string{false: "FencedPeers", true: ""} {
		store, err := concurrencystore.New(client, &concurrencystore.Options{Prefix: prefix, FencedPeers: fenced})
		must.OK(t, err)
		locks, err := fencelock.New(store, &fencelock.Options{Require: fencelock.Correctness})
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) || want == "" && err != nil {
			t.Errorf("fenced %t: got %v, want %q", fenced, err, want)
		}
		if err == nil {
			must.OK(t, locks.Close(t.Context()))
		}
	}
}

// TestNamespaceMustBeBesideTheLocks: keys of sessions in the range of a lock would count as its holders.
func TestNamespaceMustBeBesideTheLocks(t *testing.T) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}})
	must.OK(t, err)
	defer client.Close()
	for _, c := range []struct {
		prefix, namespace string
		good              bool
	}{
		{"", "", true},
		{"/locks/", "", true},
		{"/locks/", "/locks", true}, // its keys begin with /locks|
		{"/locks/", "/sessions/x", true},
		{"/locks/", "/locks/x", true}, // no lock has the range /locks/
		{"/locks/", "/locks/a/x", false},
		{"", "team/x", false},
		{"team|", "team", false},
	} {
		_, err := concurrencystore.New(client, &concurrencystore.Options{Prefix: c.prefix, Namespace: c.namespace})
		if c.good != (err == nil) || err != nil && !strings.Contains(err.Error(), "Namespace") {
			t.Errorf("Prefix %q with Namespace %q: %v, want accepted: %t", c.prefix, c.namespace, err, c.good)
		}
	}
}

// TestNameInTheNamespaceIsRefused: its keys would be among those of the sessions; and with neither prefix nor name every key
// that begins with a slash would be a claim.
func TestNameInTheNamespaceIsRefused(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	store, err := concurrencystore.New(cluster.Connect(t), &concurrencystore.Options{Namespace: "ns"})
	must.OK(t, err)
	ses := open(t, store, driver.NewSessionID())
	for name, want := range map[string]error{"ns|session|x": driver.ErrRefused, "": driver.ErrRefused, "ns": nil, "ns/session": nil} {
		if _, err := ses.Attempt(t.Context(), claim(1, name)); !errors.Is(err, want) {
			t.Errorf("an attempt for %q: %v, want %v", name, err, want)
		}
		if _, err := store.Inspect(t.Context(), name); !errors.Is(err, want) {
			t.Errorf("Inspect of %q: %v, want %v", name, err, want)
		}
	}
}

// TestLateAttemptOfAnEarlierHandleLeavesNoKey: the session was opened again, and its claim has another key by then.
func TestLateAttemptOfAnEarlierHandleLeavesNoKey(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	w, id := &wire{}, driver.NewSessionID()
	first := open(t, storeOf(t, w.connect(t, cluster)), id)
	attempt(t, first, claim(1, "a"), driver.Granted)
	late := w.delay(func(c call) bool { return c.writes(prefix+"a/", false) })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-late.sent; cancel() }()
	if _, err := first.Attempt(ctx, claim(2, "a")); !errors.Is(err, context.Canceled) {
		t.Fatalf("the attempt that is delayed: %v", err)
	}
	again := open(t, storeOf(t, cluster.Connect(t)), id)
	withdraw(t, again, driver.Withdrawal{Seq: 1, Name: "a"}, driver.WasGranted)
	attempt(t, again, claim(2, "a"), driver.Granted)
	late.arrive()
	within(t, "the late attempt", late.arrived)
	if all := keys(t, cluster, "a"); len(all) != 1 {
		t.Errorf("one claim has the keys %v", all)
	}
	withdraw(t, again, driver.Withdrawal{Seq: 2, Name: "a"}, driver.WasGranted)
	if all := keys(t, cluster, "a"); len(all) > 0 {
		t.Errorf("after the withdrawal %v is left", all)
	}
}

// TestAttemptThatArrivesDuringATombstoneLeavesNoKey: the withdrawal has found nothing, and an attempt arrives before the tombstone.
func TestAttemptThatArrivesDuringATombstoneLeavesNoKey(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	for name, handles := range map[string]int{"one": 1, "two": 2} {
		w, id := &wire{}, driver.NewSessionID()
		store := storeOf(t, w.connect(t, cluster))
		first := open(t, store, id)
		late := w.delay(func(c call) bool { return c.writes(prefix+name+"/", false) })
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-late.sent; cancel() }()
		if _, err := first.Attempt(ctx, claim(1, name)); !errors.Is(err, context.Canceled) {
			t.Fatalf("the attempt that is delayed: %v", err)
		}
		again := first
		if handles > 1 {
			again = open(t, store, id)
		}
		w.set(func(ctx context.Context, c call, do func(context.Context) error) error {
			if c.writes("gone|", false) {
				late.arrive()
				<-late.arrived
			}
			return do(ctx)
		})
		_, err := again.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: name, Tombstone: true})
		must.OK(t, err)
		if all := keys(t, cluster, name); len(all) > 0 {
			t.Errorf("%s handles: after the withdrawal %v is left", name, all)
		}
	}
}

// TestClaimsOfAnEarlierHandleAreDropped: the last Reclaim of a session that was opened again removes what the session was not asked about.
func TestClaimsOfAnEarlierHandleAreDropped(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	store, id := storeOf(t, cluster.Connect(t)), driver.NewSessionID()
	first := open(t, store, id)
	var held []driver.Held
	for i, name := range []string{"a", "b", "c"} {
		c := claim(uint64(i+1), name)
		held = append(held, driver.Held{Claim: *c, Token: attempt(t, first, c, driver.Granted).Token})
	}
	attempt(t, first, claim(4, "a"), driver.Queued)
	again := open(t, store, id)
	attempt(t, again, &held[1].Claim, driver.Granted)
	kept, err := again.Reclaim(t.Context(), held[:1], true)
	if err != nil || len(kept) != 1 || !kept[0] {
		t.Errorf("Reclaim: %v, %v", kept, err)
	}
	for name, want := range map[string]int{"a": 1, "b": 1, "c": 0} {
		if all := keys(t, cluster, name); len(all) != want {
			t.Errorf("lock %s has the keys %v, want %d", name, all, want)
		}
	}
	attempt(t, again, claim(5, "c"), driver.Granted)
	_, err = again.Reclaim(t.Context(), held[:2], true)
	must.OK(t, err)
	if all := keys(t, cluster, "c"); len(all) != 1 {
		t.Errorf("a claim from after the last Reclaim was dropped: %v", all)
	}
	withdraw(t, again, driver.Withdrawal{Seq: 1, Name: "a"}, driver.WasGranted)
}
