// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestWorkers: no acquisition waits for another, some goroutines stay for the next ones, and none outlives the server.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closing, end := make(chan struct{}), make(chan struct{})
		w := workers{work: make(chan func()), closing: closing}
		var begun atomic.Int32
		for range 3 * maxIdle {
			w.do(func() { begun.Add(1); <-end })
		}
		synctest.Wait()
		if n := begun.Load(); n != 3*maxIdle {
			t.Errorf("%d of %d began", n, 3*maxIdle)
		}
		close(end)
		synctest.Wait()
		if n := w.idle.Load(); n != maxIdle {
			t.Errorf("%d goroutines stay, want %d", n, maxIdle)
		}
		during := int32(-1)
		w.do(func() { during = w.idle.Load() })
		synctest.Wait()
		if during != maxIdle-1 {
			t.Errorf("while one works %d wait, want one less than %d", during, maxIdle)
		}
		close(closing) // a goroutine that stayed would fail the test
	})
}
