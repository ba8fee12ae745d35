// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurns: writers come one after the other for as long as turns end. A writer that does not
// end its turn stops no other for longer than a moment.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all turns
		began := time.Now()
		done := make(chan time.Duration, 3)
		for range 3 {
			go func() {
				end := all.wait(t.Context(), "x")
				time.Sleep(turnPatience * 9 / 10)
				end()
				done <- time.Since(began)
			}()
		}
		var last time.Duration
		for range 3 {
			last = <-done
		}
		if last != 3*turnPatience*9/10 {
			t.Errorf("three turns took %v", last)
		}
		if len(all.of) != 0 {
			t.Errorf("left behind: %v", all.of)
		}
		all.wait(t.Context(), "x") // never ends
		began = time.Now()
		all.wait(t.Context(), "y")()
		if d := time.Since(began); d != 0 {
			t.Errorf("the writer of another row waited %v", d)
		}
		all.wait(t.Context(), "x")()
		if d := time.Since(began); d != turnPatience {
			t.Errorf("behind a writer without an answer another one waited %v", d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began = time.Now()
		all.wait(ctx, "x")()
		if d := time.Since(began); d != 0 {
			t.Errorf("a canceled writer waited %v", d)
		}
	})
}
