// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"syscall"
	"testing"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/agent"
	"github.com/fencelock/fencelock/internal/must"
)

// TestRelease: by the command, and by TERM to the agent; a semaphore's permit too.
func TestRelease(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	p := script(t, s.url(), `eval "$($F acquire a --permits 3)"; $F release -o json`).want(0)
	var r agent.Reply
	if err := json.Unmarshal([]byte(p.out.String()), &r); err != nil || r.Lock != "a" || r.Token <= 0 || r.Error != "" {
		t.Errorf("%s: %v", p.out.String(), err)
	}
	if st, err := c.Inspect(t.Context(), "a"); err != nil || len(st.Holders) != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	script(t, s.url(), `eval "$($F acquire b)"`).want(0)
	st, err := c.Inspect(t.Context(), "b")
	if err != nil || len(st.Holders) != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
	must.OK(t, syscall.Kill(ownerPID(t, st.Holders[0].Record.Owner), syscall.SIGTERM))
	until(t, "b is free", func() bool {
		st, err := c.Inspect(t.Context(), "b")
		return err == nil && len(st.Holders) == 0
	})
	contains(t, fencelockCLI(t, s.url(), "release").want(64).err.String(), "FENCELOCK_HANDLE")
}
