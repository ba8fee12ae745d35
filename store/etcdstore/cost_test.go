// SPDX-License-Identifier: Apache-2.0

package etcdstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
)

// proposals is the server's counter of writes that went through its log.
const proposals = "etcd_server_proposals_applied_total"

// TestCostAtTheServer counts what locks cost in the server's log: two writes for
// each acquisition, however many wait, and now and then one that came too late.
func TestCostAtTheServer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cluster := etcdtest.Start(t, 1)
	const rounds = 320
	for _, c := range []struct {
		processes int
		most      float64
	}{{1, 2.05}, {4, 3.5}, {16, 3.5}} { // the server writes now and then by itself
		var all []*fencelock.Client
		for i := range c.processes {
			all = append(all, process(t, cluster, 15*time.Second))
			once(t, ctx, all[i], "warm") // opens the session
		}
		from, err := cluster.Members[0].Metric(ctx, proposals)
		must.OK(t, err)
		var wg sync.WaitGroup
		for _, p := range all {
			wg.Go(func() {
				for range rounds / c.processes {
					once(t, ctx, p, fmt.Sprint("lock/", c.processes))
				}
			})
		}
		wg.Wait()
		to, err := cluster.Members[0].Metric(ctx, proposals)
		must.OK(t, err)
		got := (to - from) / rounds
		t.Logf("%d processes: %.2f writes for each acquisition", c.processes, got)
		if got < 2 || got > c.most {
			t.Errorf("%d processes: %.2f writes for each acquisition, want 2, and at most %v", c.processes, got, c.most)
		}
	}
}

func once(t *testing.T, ctx context.Context, p *fencelock.Client, name string) {
	l, err := p.Mutex(name).Lock(ctx)
	if err == nil {
		err = l.Unlock(ctx)
	}
	if err != nil {
		t.Error(err)
	}
}
