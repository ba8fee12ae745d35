// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/fencelock/fencelock/internal/figure"
)

// heapOf returns the bytes in use after a garbage collection.
func heapOf() int64 {
	runtime.GC()
	runtime.GC() // what the first made unreachable by finalizers and pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestQuorumHeapOneNodeAway: locks that are taken and given back while one of five servers
// is down leave nothing behind in memory.
func TestQuorumHeapOneNodeAway(t *testing.T) {
	per := quorumHeap(t, 5_000, 5_000, 5_000)
	if per > 20 {
		t.Errorf("a lock and unlock leaves %.1f bytes behind, want at most 20", per)
	}
}

// heapOneNodeAway prints the figure, over more locks.
func heapOneNodeAway(t *testing.T) { quorumHeap(t, 20_000, 20_000, 20_000) }

// quorumHeap returns the bytes that a lock and unlock leaves in memory while one of five
// servers is down, over parts of so many locks.
func quorumHeap(t *testing.T, parts ...int) float64 {
	q, c := figuresRig(t)
	work := func(n int) {
		const workers = 16
		var wg sync.WaitGroup
		for i := range workers {
			wg.Go(func() {
				for k := range n / workers {
					l, err := c.Mutex(fmt.Sprint("heap/", i, "/", k%100)).Lock(t.Context())
					if err == nil {
						err = l.Unlock(t.Context())
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	work(1000)
	q.nodes[1].server.Kill()
	work(1000) // finds out
	// Other goroutines of the process allocate in some parts and free in others; what a
	// lock leaves behind stays in every part.
	per := math.Inf(1)
	_ = c.store.Close()
	for before := heapOf(); len(parts) > 0; parts = parts[1:] {
		work(parts[0])
		_ = c.store.Close()
		after := heapOf()
		per = min(per, float64(after-before)/float64(parts[0]))
		before = after
	}
	figure.Print("quorum-heap-per-lock-one-node-away", max(per, 0), figure.AtMost(20))
	return per
}
