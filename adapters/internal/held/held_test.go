// SPDX-License-Identifier: Apache-2.0

package held_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/internal/held"
	"github.com/fencelock/fencelock/internal/locktest"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestUnlockByNameSparesTheNextHolder: work that lost its lock unlocks it by name while other
// work of the same process holds it again.
func TestUnlockByNameSparesTheNextHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		c := locktest.Client(t, store, nil)
		var lost []string
		h := held.New("host/", func(name string, err error) {
			locktest.Is(t, err, fencelock.ErrLost)
			lost = append(lost, name)
		})
		first := locktest.Got(t)(c.Mutex(h.Lock("a"), fencelock.MaxHold(time.Second)).Lock(t.Context()))
		h.Add("a", first)
		if err := h.Err("a"); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		second := locktest.Got(t)(c.Mutex(h.Lock("a")).Lock(t.Context()))
		h.Add("a", second)
		locktest.Is(t, h.Err("a"), fencelock.ErrLost)
		locktest.Is(t, h.Unlock(t.Context(), "a"), fencelock.ErrLost)
		if second.Err() != nil || h.Err("a") != nil {
			t.Errorf("the second lease: %v, %v; want it held", second.Err(), h.Err("a"))
		}
		if err := h.Unlock(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		for op, err := range map[string]error{"unlock": h.Unlock(t.Context(), "a"), "renew": h.Err("a")} {
			if err == nil || !strings.Contains(err.Error(), op+` "host/a"`) || !strings.Contains(err.Error(), "not locked here") {
				t.Errorf("%s of what is not locked: %v", op, err)
			}
		}
		locktest.Free(t, store, "host/a")
		if len(lost) != 1 || lost[0] != "a" {
			t.Errorf("reported as lost: %v, want a once, and not what was unlocked", lost)
		}
	})
}
