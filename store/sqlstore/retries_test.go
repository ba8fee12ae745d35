// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestRetries: writers that were too late come one after the other. One that does not come to
// an end stops no other for longer than a moment.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all retries
		began := time.Now()
		done := make(chan time.Duration, 3)
		for range 3 {
			go func() {
				end := all.wait(t.Context(), "x")
				time.Sleep(retryPatience * 9 / 10)
				end()
				done <- time.Since(began)
			}()
		}
		var last time.Duration
		for range 3 {
			last = <-done
		}
		if last != 3*retryPatience*9/10 {
			t.Errorf("three retries took %v", last)
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
		if d := time.Since(began); d != retryPatience {
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
