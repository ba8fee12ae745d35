// SPDX-License-Identifier: Apache-2.0

package both_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/both"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestOneStoreGivenTwiceIsRefused: one URL for both stores makes two values for one server, which New cannot see. The first
// lock is refused with the reason, and leaves nothing.
func TestOneStoreGivenTwiceIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(nil)
		opened := func() driver.Store {
			s, err := faultstore.Wrap(mem, nil, nil)
			must.OK(t, err)
			return s
		}
		s, err := both.New(both.Stores{Old: opened(), New: opened()}, nil)
		must.OK(t, err)
		c, err := fencelock.New(s, &fencelock.Options{TTL: 10 * time.Second})
		must.OK(t, err)
		defer c.Close(context.Background())
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for name, lock := range map[string]func() error{
			"lock": func() error { _, err := c.Mutex("x").Lock(ctx); return err },
			"try":  func() error { _, err := c.Mutex("x").TryLock(ctx); return err },
		} {
			if err := lock(); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "in the same place") {
				t.Errorf("%s: got %v, want a refusal that names the cause", name, err)
			}
		}
		if st, err := mem.Inspect(t.Context(), "x"); err != nil || len(st.Holders) != 0 {
			t.Errorf("left: %+v, %v", st.Holders, err)
		}
	})
}
