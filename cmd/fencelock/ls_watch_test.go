// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

func TestLsWatch(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	holdAll(t, c, "there")
	w := begin(t, s.url(), "ls", "--watch", "--every", "20ms")
	sees := func(what ...string) {
		t.Helper()
		until(t, strings.Join(what, " "), func() bool {
			for line := range strings.Lines(w.out.String()) {
				all := true
				for _, part := range what {
					all = all && strings.Contains(line, part)
				}
				if all {
					return true
				}
			}
			return false
		})
	}
	sees(`"event":"held","lock":"there"`, `"initial":true`)
	l, err := c.Mutex("a").Lock(t.Context())
	must.OK(t, err)
	sees(`"event":"held","lock":"a"`, l.Token().String())
	waiter := begin(t, s.url(), "run", "a", "--owner", "bob", "--", "true")
	sees(`"event":"waiting","lock":"a","owner":"bob"`, `"waiting":1`)
	_ = waiter.cmd.Process.Signal(syscall.SIGINT)
	sees(`"event":"left","lock":"a","owner":"bob"`)
	must.OK(t, l.Unlock(t.Context()))
	sees(`"event":"ended","lock":"a"`)
	for line := range strings.Lines(w.out.String()) {
		var e watchEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Time.IsZero() || e.Kind == "" {
			t.Errorf("%s: %v", line, err)
		}
	}
	_ = w.cmd.Process.Signal(syscall.SIGINT)
	w.want(130)
	fencelockCLI(t, s.url(), "ls", "--watch", "--for", "1ms", "nothing/").want(0) // less than it takes to open the store
	fencelockCLI(t, "redis://127.0.0.1:1", "ls", "--watch", "--for", "1ms").want(exitUnavailable)
	fencelockCLI(t, s.url(), "ls", "--watch", "--every", "1ms").want(64)
	fencelockCLI(t, s.url(), "ls", "--watch", "-o", "wide").want(64)
	fencelockCLI(t, s.url(), "ls", "--every", "1s").want(64)
}

// TestLsWatchUnreachable: the watch outlives the server's absence.
func TestLsWatchUnreachable(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	link := newProxy(t, s.addr)
	holdAll(t, s.client(t, nil), "a")
	w := begin(t, "redis://"+link.addr, "ls", "--watch", "--every", "20ms", "--timeout", "4s")
	until(t, "it has polled", func() bool { return strings.Contains(w.out.String(), `"lock":"a"`) })
	link.cut()
	until(t, "unreachable", func() bool { return strings.Contains(w.out.String(), `"event":"unreachable"`) })
	link.heal()
	until(t, "reachable", func() bool { return strings.Contains(w.out.String(), `"event":"reachable"`) })
}
