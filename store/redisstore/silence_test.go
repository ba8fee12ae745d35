// SPDX-License-Identifier: Apache-2.0

//go:build linux

package redisstore

import (
	"bytes"
	"context"
	"errors"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// TestOpenEndsWithItsContext: at an address that is silent Open returns when its context
// ends, long before the time for connecting is over, says which address it was, and what
// it leaves behind is closed later.
func TestOpenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	var opening sync.WaitGroup
	for kind, listen := range map[string]func() (string, func(), error){"mute": servers.Mute, "black hole": servers.BlackHole} {
		addr, stop, err := listen()
		must.OK(t, err)
		defer stop()
		for _, url := range []string{"redis://:hunter2@" + addr, "redis-sentinel://:hunter2@" + addr + "/m", "redis-cluster://:hunter2@" + addr} {
			opening.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				began := time.Now()
				_, err := Open(ctx, url+"?dial_timeout=5s&read_timeout=5s", nil)
				if took := time.Since(began); took > 4*time.Second {
					t.Errorf("%s, %s: it took %v", kind, url, took)
				}
				if err == nil || !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUnknown) ||
					!strings.Contains(err.Error(), addr) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%s, %s: got %v, want an unavailable store with its address", kind, url, err)
				}
			})
		}
	}
	opening.Wait()
	ticks, late := time.NewTicker(200*time.Millisecond), time.After(time.Minute)
	defer ticks.Stop()
	for left := leftBehind(t); left != ""; left = leftBehind(t) {
		select {
		case <-ticks.C:
		case <-late:
			t.Fatalf("a client is not closed yet:\n%s", left)
		}
	}
}

// leftBehind returns the goroutines, if one of them still closes a client or asks for
// an answer. There is no counting: other tests have theirs.
func leftBehind(t *testing.T) string {
	var all bytes.Buffer
	must.OK(t, pprof.Lookup("goroutine").WriteTo(&all, 1))
	if text := all.String(); strings.Contains(text, "redisstore.abandon") || strings.Contains(text, "redisstore.answers") {
		return text
	}
	return ""
}
