// SPDX-License-Identifier: Apache-2.0

package concurrencystore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
)

// client is a client of a store behind the wire.
func (w *wire) client(t testing.TB, cluster *etcdtest.Cluster) *fencelock.Client {
	t.Helper()
	c, err := fencelock.New(storeOf(t, w.connect(t, cluster)), &fencelock.Options{TTL: 30 * time.Second})
	must.OK(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// TestLostReplyOfAGrantLeavesOneKey: the next attempt finds the key, and the unlock removes it.
func TestLostReplyOfAGrantLeavesOneKey(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	w := &wire{}
	ses := open(t, storeOf(t, w.connect(t, cluster)), driver.NewSessionID())
	lost := w.loseOnce(func(c call) bool { return c.writes(prefix+"a/", false) })
	if out, err := ses.Attempt(t.Context(), claim(1, "a")); !errors.Is(err, driver.ErrUnknown) {
		t.Fatalf("the attempt whose reply was lost: %+v, %v", out, err)
	}
	within(t, "the loss of the reply", lost)
	attempt(t, ses, claim(1, "a"), driver.Granted)
	if all := keys(t, cluster, "a"); len(all) != 1 {
		t.Errorf("a lock that is held has the keys %v", all)
	}
	withdraw(t, ses, driver.Withdrawal{Seq: 1, Name: "a"}, driver.WasGranted)
	if all := keys(t, cluster, "a"); len(all) > 0 {
		t.Errorf("after the unlock %v is left", all)
	}
}

// TestLostReplyOfAQueuedClaimLeavesOneKey: the waiter keeps its position, and one that gives up leaves nothing.
func TestLostReplyOfAQueuedClaimLeavesOneKey(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	holder, err := locks(t, cluster).Mutex("a").Lock(t.Context())
	must.OK(t, err)
	w := &wire{}
	c := w.client(t, cluster)
	lost := w.loseOnce(func(c call) bool { return c.writes(prefix+"a/", false) })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := c.Mutex("a").Lock(ctx); ended <- err }()
	within(t, "the loss of the reply", lost)
	w.set(nil)
	got := later(t, locks(t, cluster), "a")
	queued(t, c, "a", 2)
	cancel()
	if err := within(t, "the wait", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the canceled wait ended with %v", err)
	}
	queued(t, c, "a", 1)
	must.OK(t, holder.Unlock(t.Context()))
	must.OK(t, granted(t, "Lock after the unlock", got).Unlock(t.Context()))
	if all := keys(t, cluster, "a"); len(all) > 0 {
		t.Errorf("after the unlock %v is left", all)
	}
}

// TestLostReplyOfAnUnlockLeavesNoKey: the withdrawal is repeated, and finds its own work: it is not a broken lock.
func TestLostReplyOfAnUnlockLeavesNoKey(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	w := &wire{}
	ses := open(t, storeOf(t, w.connect(t, cluster)), driver.NewSessionID())
	attempt(t, ses, claim(1, "a"), driver.Granted)
	lost := w.loseOnce(func(c call) bool { return c.writes(prefix+"a/", true) })
	if found, err := ses.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "a"}); !errors.Is(err, driver.ErrUnknown) {
		t.Fatalf("the withdrawal whose reply was lost: %v, %v", found, err)
	}
	within(t, "the loss of the reply", lost)
	renewal, err := ses.KeepAlive(t.Context())
	if err != nil || len(renewal.Broken) > 0 {
		t.Errorf("the renewal: %+v, %v; want no broken claim", renewal, err)
	}
	withdraw(t, ses, driver.Withdrawal{Seq: 1, Name: "a"}, driver.WasAbsent)
	attempt(t, ses, claim(2, "a"), driver.Granted)
	withdraw(t, ses, driver.Withdrawal{Seq: 1, Name: "a"}, driver.WasAbsent)
	if all := keys(t, cluster, "a"); len(all) != 1 {
		t.Errorf("the lock has the keys %v, want that of the second claim", all)
	}
}

// TestLostReplyOfAKeepAliveLosesNothing: the renewal is repeated, and the lock has the key that it had.
func TestLostReplyOfAKeepAliveLosesNothing(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	w := &wire{}
	ses := open(t, storeOf(t, w.connect(t, cluster)), driver.NewSessionID())
	attempt(t, ses, claim(1, "a"), driver.Granted)
	before := keys(t, cluster, "a")
	for range 2 {
		w.loseKeepAlive()
		renewal, err := ses.KeepAlive(t.Context())
		if err != nil && !errors.Is(err, driver.ErrUnavailable) || len(renewal.Broken) > 0 {
			t.Errorf("the renewal: %+v, %v", renewal, err)
		}
	}
	renewal, err := ses.KeepAlive(t.Context())
	if err != nil || len(renewal.Broken) > 0 {
		t.Errorf("the renewal after it: %+v, %v", renewal, err)
	}
	if all := keys(t, cluster, "a"); len(all) != 1 || len(before) != 1 || all[0] != before[0] {
		t.Errorf("the lock has the keys %v, and had %v", all, before)
	}
	withdraw(t, ses, driver.Withdrawal{Seq: 1, Name: "a"}, driver.WasGranted)
}
