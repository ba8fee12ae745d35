// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
)

// TestWhy: a deadlock of two scripts, each holding a lock and asking for the
// other's, is named.
func TestWhy(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	contains(t, fencelockCLI(t, s.url(), "why").want(0).out.String(), "no client waits")
	contains(t, fencelockCLI(t, s.url(), "why", "a").want(0).out.String(), "a: free")
	path, err := binary()
	must.OK(t, err)
	c := s.client(t, &fencelock.Options{Owner: "watcher"})
	both := func(own, other string) *process {
		return begin(t, s.url(), "run", own, "--owner", "holder-of-"+own, "--reason", "tangled", "--", "sh", "-c",
			`while [ "$(`+path+` ls -o name | wc -l)" -lt 2 ]; do sleep 0.05; done; exec `+path+` run `+other+` -- true`)
	}
	both("a", "b")
	both("b", "a")
	for _, name := range []string{"a", "b"} {
		until(t, "they wait for each other", func() bool {
			st, err := c.Inspect(t.Context(), name)
			return err == nil && st.Waiting == 1
		})
	}
	out := fencelockCLI(t, s.url(), "why", "a").want(exitFailed).out.String()
	contains(t, out, "held by holder-of-a", "(tangled)", "which itself waits for b", "b: held by holder-of-b", "and so on in a circle",
		"circle: holder-of-a holds a and waits for b; holder-of-b holds b and waits for a", "fencelock break b --token")
	var v whyJSON
	must.OK(t, json.Unmarshal([]byte(fencelockCLI(t, s.url(), "why", "-o", "json").want(exitFailed).out.String()), &v))
	if len(v.Cycles) != 1 || len(v.Cycles[0]) != 2 || len(v.Locks) != 2 {
		t.Errorf("got %+v", v)
	}
	dot := fencelockCLI(t, s.url(), "why", "-o", "dot").want(exitFailed).out.String()
	contains(t, dot, `"lock a" -> "holder-of-a" [label="held by"]`, `waits for`)
	if _, err := exec.LookPath("dot"); err == nil {
		cmd := bounded(t, "dot", "-Tsvg")
		cmd.Stdin = strings.NewReader(dot)
		if err := cmd.Run(); err != nil {
			t.Errorf("graphviz does not read it: %v\n%s", err, dot)
		}
	}
}

// TestWhyNamesTheGracePeriod: a lock that is not held and not granted has a reason, and why
// gives it.
func TestWhyNamesTheGracePeriod(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	url := s.url() + "?grace=true&max_ttl=1m" // a new namespace begins with a grace period
	waiter := begin(t, url, "run", "a", "--", "true")
	until(t, "it waits, and for what", func() bool {
		return strings.Contains(waiter.err.String(), "waiting for a: the store is new or was reset; no new locks for")
	})
	contains(t, fencelockCLI(t, url, "why", "a").want(0).out.String(), "not held, 1 waiting", "no new locks for", "grace period")
}
