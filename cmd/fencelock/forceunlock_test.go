// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/internal/must"
)

func TestForceUnlock(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, &fencelock.Options{Owner: "ann"})
	contains(t, fencelockCLI(t, s.url(), "force-unlock", "a", "--reason", "x").want(64).err.String(), "a is not held")
	l, err := c.Mutex("a").Lock(t.Context())
	must.OK(t, err)
	token := l.Token().String()
	contains(t, fencelockCLI(t, s.url(), "force-unlock", "a", "--reason", "x").want(64).err.String(), "ann", "--token "+token)
	contains(t, fencelockCLI(t, s.url(), "force-unlock", "a", "--token", token).want(64).err.String(), "--reason")
	contains(t, fencelockCLI(t, s.url(), "force-unlock", "a", "--token", "256", "--reason", "x").want(1).err.String(), "nothing was done")
	if st, err := c.Inspect(t.Context(), "a"); err != nil || len(st.Holders) != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
	p := fencelockCLI(t, s.url(), "force-unlock", "a", "--token", token, "--reason", "it burns", "-o", "json").want(0)
	var v lockview.Broken
	must.OK(t, json.Unmarshal([]byte(p.out.String()), &v))
	if v.Fence <= l.Token() || v.Holder == nil || v.Holder.Owner != "ann" || v.Reason != "it burns" || v.By == "" {
		t.Errorf("got %+v", v)
	}
	next, err := s.client(t, nil).Mutex("a").TryLock(t.Context())
	must.OK(t, err)
	if next.Token() <= v.Fence {
		t.Errorf("the next token %v is not above the fence %v", next.Token(), v.Fence)
	}
	contains(t, fencelockCLI(t, s.url(), "force-unlock", "a", "--token", next.Token().String(), "--reason", "again").want(0).out.String(), "fence the resource with")
}
