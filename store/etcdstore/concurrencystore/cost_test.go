// SPDX-License-Identifier: Apache-2.0

package concurrencystore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// crowd writes the keys of other clients, with values as long as ours: first a holder, then waiters.
func crowd(t *testing.T, cluster *etcdtest.Cluster, name string, waiters int) (holder func()) {
	t.Helper()
	client := cluster.Connect(t)
	lease, err := client.Grant(t.Context(), 600)
	must.OK(t, err)
	for i := range waiters + 1 {
		_, err := client.Put(t.Context(), fmt.Sprintf("%s%s/%016x", prefix, name, i+1), strings.Repeat("x", 300), clientv3.WithLease(lease.ID))
		must.OK(t, err)
	}
	return func() {
		_, err := client.Delete(t.Context(), fmt.Sprintf("%s%s/%016x", prefix, name, waiters+1))
		must.OK(t, err)
	}
}

// TestCostDoesNotGrowWithTheQueue counts what goes over the wire for each step of a waiter, behind a few other waiters and behind many.
func TestCostDoesNotGrowWithTheQueue(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	type cost struct{ requests, bytes int64 }
	measured := map[int]map[string]cost{}
	const few, many = 20, 400
	for _, n := range []int{few, many} {
		name := fmt.Sprint("queue", n)
		leave := crowd(t, cluster, name, n)
		w := &wire{}
		ses := open(t, storeOf(t, w.connect(t, cluster)), driver.NewSessionID())
		all := map[string]cost{}
		step := func(what string, do func()) {
			r, b := w.cost(do)
			all[what] = cost{r, b}
		}
		c := claim(1, name)
		try := claim(2, name)
		try.Queue = false
		step("try", func() { attempt(t, ses, try, driver.Busy) })
		step("attempt", func() {
			if out := attempt(t, ses, c, driver.Queued); out.Position != n {
				t.Errorf("behind %d waiters the position is %d", n, out.Position)
			}
		})
		step("poll", func() {
			if out := attempt(t, ses, c, driver.Queued); out.Position < 7 || out.Position > n {
				t.Errorf("behind %d waiters a poll shows position %d", n, out.Position)
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		awaited := make(chan error, 1)
		step("await", func() {
			from := w.requests.Load()
			sends := func(n int64) {
				t.Helper()
				must.OK(t, servers.Await("it reads and watches", func() bool { return w.requests.Load() >= from+n }))
			}
			go func() { _, err := ses.Await(ctx, c); awaited <- err }()
			sends(2)
			leave() // it reads once more, and watches another key
			sends(4)
		})
		cancel()
		within(t, "the end of the wait", awaited)
		step("withdraw", func() { withdraw(t, ses, driver.Withdrawal{Seq: 1, Name: name}, driver.WasQueued) })
		measured[n] = all
	}
	for what, of := range measured[many] {
		base := measured[few][what]
		t.Logf("%s: %d messages, %d bytes behind %d waiters; %d, %d behind %d", what, base.requests, base.bytes, few, of.requests, of.bytes, many)
		if of.bytes > base.bytes+base.bytes/5+64 || what != "await" && what != "withdraw" && of.requests != base.requests {
			t.Errorf("%s costs %+v behind %d waiters and %+v behind %d", what, base, few, of, many)
		}
	}
}

// TestPollsAreLaterFartherBack: a claim far back in a queue has no reason to poll when the holder's lease ends.
func TestPollsAreLaterFartherBack(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	store := storeOf(t, cluster.Connect(t))
	attempt(t, open(t, store, driver.NewSessionID()), claim(1, "a"), driver.Granted)
	var last time.Duration
	for i := range 3 {
		out := attempt(t, open(t, store, driver.NewSessionID()), claim(1, "a"), driver.Queued)
		if out.Position != i {
			t.Errorf("claim %d has position %d", i, out.Position)
		}
		if extra := out.PollAfter - out.Holders[0].EndsIn; extra < last || i > 0 && extra == last {
			t.Errorf("position %d polls %v after the end of the holder, the one before %v", i, extra, last)
		} else {
			last = extra
		}
	}
}
