// SPDX-License-Identifier: Apache-2.0

package concurrencystore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// together creates keys in one transaction, so that they have the same create revision, and returns what deletes a key.
func together(t *testing.T, cluster *etcdtest.Cluster, keys ...string) (remove func(key string)) {
	t.Helper()
	client := cluster.Connect(t)
	lease, err := client.Grant(t.Context(), 600)
	must.OK(t, err)
	var ops []clientv3.Op
	for _, key := range keys {
		ops = append(ops, clientv3.OpPut(prefix+key, "of another program", clientv3.WithLease(lease.ID)))
	}
	_, err = client.Txn(t.Context()).Then(ops...).Commit()
	must.OK(t, err)
	return func(key string) {
		t.Helper()
		_, err := client.Delete(t.Context(), prefix+key)
		must.OK(t, err)
	}
}

// TestClaimOfTheSameRevisionAsALongerNameHolds: a transaction created both keys, and the one that is read first is not a claim of this lock.
func TestClaimOfTheSameRevisionAsALongerNameHolds(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	remove := together(t, cluster, "a/0/x", "a/77", "a/9/x")
	store := storeOf(t, cluster.Connect(t))
	ses := open(t, store, driver.NewSessionID())
	out := attempt(t, ses, claim(1, "a"), driver.Queued)
	if len(out.Holders) != 1 || out.Holders[0].Record.Reason != "of another program" {
		t.Errorf("the holders are %+v", out.Holders)
	}
	type result struct {
		out driver.Outcome
		err error
	}
	awaited := make(chan result, 1)
	go func() { out, err := ses.Await(t.Context(), claim(1, "a")); awaited <- result{out, err} }()
	attempt(t, ses, claim(1, "a"), driver.Queued)
	select {
	case got := <-awaited:
		t.Fatalf("the wait ended with %+v, %v while another program holds the lock", got.out, got.err)
	default:
	}
	remove("a/77")
	if got := within(t, "the grant", awaited); got.err != nil || got.out.State != driver.Granted {
		t.Errorf("after the unlock the wait ended with %+v, %v", got.out, got.err)
	}
}

// TestInspectCountsClaimsOfOneRevision: those of one transaction may begin among the reported waiters and end after them.
func TestInspectCountsClaimsOfOneRevision(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	const atOnce = 60 // etcd allows 128 operations
	for part := range 2 {
		var all []string
		for i := range atOnce {
			all = append(all, fmt.Sprintf("a/%d%02d/x", part, i), fmt.Sprintf("a/%d%02d", part, i))
		}
		together(t, cluster, all...)
	}
	st, err := storeOf(t, cluster.Connect(t)).Inspect(t.Context(), "a")
	must.OK(t, err)
	if st.Waiting != 2*atOnce-1 || len(st.Waiters) != driver.MaxWaitersReported || len(st.Holders) != 1 {
		t.Errorf("%d holders, %d waiters, of which %d are reported", len(st.Holders), st.Waiting, len(st.Waiters))
	}
	for _, w := range st.Waiters {
		if w.Record.Reason != "of another program" {
			t.Fatalf("the value of a waiter was not read: %+v", w)
		}
	}
}

// TestCostDoesNotGrowWithLongerNames counts the messages beside a few locks whose names continue the name of the lock, and beside many.
func TestCostDoesNotGrowWithLongerNames(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	measured := map[int]map[string]int64{}
	const few, many = 20, 400
	for _, n := range []int{few, many} {
		name := fmt.Sprint("orders", n)
		crowd(t, cluster, name+"/42", n)
		w := &wire{}
		store := storeOf(t, w.connect(t, cluster))
		holder, waiter := open(t, store, driver.NewSessionID()), open(t, store, driver.NewSessionID())
		all := map[string]int64{}
		step := func(what string, do func()) { all[what], _ = w.cost(do) }
		try := claim(1, name)
		try.Queue = false
		step("try", func() { attempt(t, holder, try, driver.Granted) })
		step("attempt", func() { attempt(t, waiter, claim(1, name), driver.Queued) })
		step("poll", func() { attempt(t, waiter, claim(1, name), driver.Queued) })
		step("inspect", func() {
			st, err := store.Inspect(context.Background(), name)
			if err != nil || st.Waiting != 1 || len(st.Waiters) != 1 || st.Waiters[0].Record.Owner != "test" {
				t.Errorf("Inspect beside %d longer names: %+v, %v", n, st, err)
			}
		})
		step("withdraw", func() { withdraw(t, waiter, driver.Withdrawal{Seq: 1, Name: name}, driver.WasQueued) })
		measured[n] = all
	}
	for what, of := range measured[many] {
		t.Logf("%s: %d messages beside %d longer names; %d beside %d", what, measured[few][what], few, of, many)
		if base := measured[few][what]; of > base+2 { // Inspect reads what one page of values has not
			t.Errorf("%s costs %d messages beside %d longer names and %d beside %d", what, base, few, of, many)
		}
	}
}
