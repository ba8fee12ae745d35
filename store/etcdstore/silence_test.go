// SPDX-License-Identifier: Apache-2.0

//go:build linux

package etcdstore

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// TestOpenEndsWithItsContext: at an address that is silent Open returns when its context
// ends, long before the time for connecting is over, says which address it was, and
// leaves nothing behind.
func TestOpenEndsWithItsContext(t *testing.T) {
	for kind, listen := range map[string]func() (string, func(), error){"mute": servers.Mute, "black hole": servers.BlackHole} {
		for _, user := range []string{"", "u:hunter2@"} { // with a user the client asks before there is a store
			t.Run(kind+" "+user, func(t *testing.T) {
				addr, stop, err := listen()
				must.OK(t, err)
				defer stop()
				before := runtime.NumGoroutine()
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				began := time.Now()
				_, err = Open(ctx, "etcd://"+user+addr+"?dial_timeout=1m", nil)
				if took := time.Since(began); took > 20*time.Second {
					t.Errorf("it took %v", took)
				}
				if err == nil || !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUnknown) ||
					!strings.Contains(err.Error(), addr) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("got %v, want an unavailable store with its address", err)
				}
				left := func() bool { return runtime.NumGoroutine() > before }
				ticks, late := time.NewTicker(20*time.Millisecond), time.After(20*time.Second)
				defer ticks.Stop()
				for left() {
					select {
					case <-ticks.C:
					case <-late:
						all := make([]byte, 1<<20)
						t.Fatalf("there were %d goroutines, and now\n%s", before, all[:runtime.Stack(all, true)])
					}
				}
			})
		}
	}
}
