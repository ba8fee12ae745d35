// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestUnlockedIsBounded: a server that ends does not wait for a store that does not answer, and counts what is left.
func TestUnlockedIsBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		within := func() int {
			ctx, cancel := context.WithTimeout(w.Context(), time.Second)
			defer cancel()
			return w.servers[0].Unlocked(ctx)
		}
		left := func(want int) {
			w.Helper()
			began := time.Now()
			if got := within(); got != want || want > 0 && time.Since(began) != time.Second {
				w.Errorf("%d unlocks left after %v, want %d", got, time.Since(began), want)
			}
		}
		h := w.client()
		a := w.acquire(0, h, "1", "a")
		w.acquire(0, h, "2", "b")
		w.atOnce(func() { left(0) })
		w.links[0].slow.Store(true)
		n := named(a)
		go func() { _, _ = w.servers[0].Release(w.Context(), calls(h), &n) }()
		synctest.Wait()
		left(1)
		time.Sleep(ttl) // b is not renewed, and the call for a is over
		left(1)
		w.links[0].slow.Store(false)
		if left := w.servers[0].Unlocked(w.Context()); left != 0 {
			w.Errorf("%d unlocks left at the end", left)
		}
		time.Sleep(ttl)
		w.free("a", "b")
	})
}
