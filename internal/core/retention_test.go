// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/core"
	"github.com/fencelock/fencelock/internal/must"
)

// heap returns the bytes in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// In real time: what it measures is memory.
func TestEndedLeaseKeepsNoOthersInMemory(t *testing.T) {
	const n, most = 20_000, 2 << 20
	for name, run := range map[string]func(t *testing.T, c *fencelock.Client) *fencelock.Lease{
		"unlocked": func(t *testing.T, c *fencelock.Client) *fencelock.Lease {
			first := lock(t, c, "first")
			before := first
			for i := range n { // hand-over-hand, so that each lease is linked to the next
				l := lock(t, c, fmt.Sprint("n", i))
				unlock(t, before)
				before = l
			}
			unlock(t, before)
			return first
		},
		"lost": func(t *testing.T, c *fencelock.Client) *fencelock.Lease {
			first := lock(t, c, "first")
			for i := range n {
				lock(t, c, fmt.Sprint("n", i))
			}
			must.OK(t, c.Close(ctxb))
			return first
		},
		"lost with those of its grant": func(t *testing.T, c *fencelock.Client) *fencelock.Lease {
			first := lock(t, c, "first")
			ctx := first.Context()
			for range n {
				if _, err := c.Mutex("first").Lock(ctx); err != nil {
					t.Fatal(err)
				}
			}
			must.OK(t, c.Close(ctxb))
			return first
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := fencelock.New(newStore(), nil)
			must.OK(t, err)
			defer c.Close(ctxb)
			before := heap()
			l := run(t, c)
			if now := heap(); now > before+most {
				t.Errorf("one ended lease of %d keeps %d bytes", n, now-before)
			}
			runtime.KeepAlive(l)
		})
	}
}

// In real time: what it measures is processor time, of which there is a hundred
// times as much as needed.
func TestManyLeasesEndInLinearTime(t *testing.T) {
	const enough = 3 * time.Second
	t.Run("re-entered", func(t *testing.T) {
		c := newClient(t, newStore(), nil)
		l := lock(t, c, "x")
		ctx := l.Context()
		var inner []*fencelock.Lease
		for range 60_000 {
			in, err := c.Mutex("x").Lock(ctx)
			must.OK(t, err)
			inner = append(inner, in)
		}
		began := time.Now()
		for _, in := range inner {
			unlock(t, in)
		}
		if took := time.Since(began); took > enough {
			t.Errorf("%d leases were unlocked in order of locking in %v", len(inner), took)
		}
		unlock(t, l)
	})
	t.Run("broken", func(t *testing.T) {
		const n = 100_000
		if took := core.FindBroken(n); took > enough {
			t.Errorf("%d broken leases of as many were found in %v", n, took)
		}
	})
}
