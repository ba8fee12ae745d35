// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

// TestTombstonesOfALongSessionAreForgotten: a session that lives for days refuses what was tombstoned within an hour, and does
// not remember all that it ever tombstoned.
func TestTombstonesOfALongSessionAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, nil)
		s := r.store(nil)
		defer s.Close()
		d := opened(t, s, "x")
		for seq := uint64(1); seq <= 200; seq++ {
			_, err := d.Withdraw(t.Context(), driver.Withdrawal{Seq: seq, Name: "x", Tombstone: true})
			must.OK(t, err)
			for range 100 { // 6 to an hour
				time.Sleep(6 * time.Second)
				_, err := d.KeepAlive(t.Context())
				must.OK(t, err)
			}
			for late := max(seq, 7) - 6; late <= seq; late++ {
				if got, err := d.Attempt(t.Context(), claim(late)); err != nil || got.State != driver.Absent {
					t.Fatalf("an attempt of claim %d, tombstoned within an hour: got %+v, %v, want absent", late, got, err)
				}
			}
		}
		if n := s.Tombstones(); n > 14 {
			t.Errorf("%d tombstones are remembered, want those of two hours, 14 at most", n)
		}
		must.OK(t, d.Close(t.Context()))
	})
}
