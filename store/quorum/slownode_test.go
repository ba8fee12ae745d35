// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/quorum"
)

// TestSlowNodeDoesNotHoldUpAContendedLock: two processes pass a lock to and fro while one node answers later
// than the others. The majority that answers at once decides; nobody waits for the timeout of the slow
// node, or until both try again. Gathering takes a random time, so each case runs several times.
func TestSlowNodeDoesNotHoldUpAContendedLock(t *testing.T) {
	rounds := 5
	if testing.Short() {
		rounds = 1
	}
	for _, size := range []int{3, 5} {
		for _, delay := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond} {
			t.Run(fmt.Sprint(size, " nodes, ", delay), func(t *testing.T) {
				for range rounds {
					synctest.Test(t, func(t *testing.T) { besideASlowNode(t, size, delay) })
				}
			})
		}
	}
}

// besideASlowNode fails the test if a lock takes long though a majority answers at once.
func besideASlowNode(t *testing.T, size int, delay time.Duration) {
	g := newRig(t, size, grace())
	faults := map[int]faultstore.Fault{size - 1: faultstore.Delay(delay, delay)}
	for i := range size - 1 {
		faults[i] = faultstore.Delay(100*time.Microsecond, 100*time.Microsecond)
	}
	var mu sync.Mutex
	var worst time.Duration
	var all sync.WaitGroup
	for range 2 {
		s, err := quorum.New(g.nodes(faults), &quorum.Options{Alarm: g.alarm})
		must.OK(t, err)
		c := g.with(s, &fencelock.Options{TTL: 10 * time.Second, LocalHandoff: -1})
		all.Go(func() {
			for range 200 {
				asked := time.Now()
				l, err := c.Mutex("x").Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				worst = max(worst, time.Since(asked))
				mu.Unlock()
				time.Sleep(time.Millisecond)
				if err := l.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if worst > 300*time.Millisecond { // a few times of gathering; a timeout is a second
		t.Errorf("a lock took %v beside a node that takes %v to answer", worst, 2*delay)
	}
}
