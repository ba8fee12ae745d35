// SPDX-License-Identifier: Apache-2.0

package storekit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
)

// TestWatches: a holder is notified once, after tries that fail; a claim that was withdrawn and a session that has ended are not watched.
func TestWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := storekit.Watches{Pause: time.Second}
		begun, notified := 0, []uint64{}
		answers := []error{errors.New("cut"), nil}
		queued := func(context.Context, uint64, string) (bool, error) {
			err := answers[min(begun, 1)]
			begun++
			return err == nil, err
		}
		never := func(ctx context.Context, _ uint64, _ string) (bool, error) {
			begun++
			<-ctx.Done()
			return false, ctx.Err()
		}
		start := func(seq uint64, queued func(context.Context, uint64, string) (bool, error)) {
			w.Start(t.Context(), &driver.Claim{Seq: seq, Watch: true}, queued)
			synctest.Wait()
		}
		start(1, queued) // nobody wants to know
		w.Report(func(seq uint64) { notified = append(notified, seq) })
		if begun != 0 {
			t.Fatalf("%d watches began", begun)
		}
		start(1, queued)
		start(1, queued)
		time.Sleep(2 * time.Second)
		if start(1, queued); begun != 2 || len(notified) != 1 {
			t.Errorf("%d tries, notified %v, want two and one", begun, notified)
		}
		start(2, never)
		w.End(2)
		start(2, never) // it was granted again
		w.Close()
		synctest.Wait()
		if start(3, never); begun != 4 {
			t.Errorf("%d tries, want no watch after Close", begun)
		}
	})
}
