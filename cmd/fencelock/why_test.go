// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/driver"
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
		"circle: holder-of-a holds a and waits for b; holder-of-b holds b and waits for a", "fencelock force-unlock b --token")
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

func TestWhyOneLock(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	contains(t, fencelockCLI(t, s.url(), "why", "a").want(0).out.String(), "a: free")
	c := s.client(t, &fencelock.Options{Owner: "ann", Labels: map[string]string{"team": "billing"}})
	l, err := c.Mutex("a", fencelock.Reason("why not")).Lock(t.Context())
	must.OK(t, err)
	waiter := begin(t, s.url(), "run", "a", "--owner", "bob", "--", "true")
	until(t, "it waits", func() bool { return strings.Contains(waiter.err.String(), "waiting") })
	contains(t, fencelockCLI(t, s.url(), "why", "a").want(0).out.String(),
		"a: held by 1, 1 waiting", "ann", "why not", l.Token().String(), "team     billing", "unless renewed", "1  bob  exclusive")
	var view whyJSON
	must.OK(t, json.Unmarshal([]byte(fencelockCLI(t, s.url(), "why", "a", "-o", "json").want(0).out.String()), &view))
	if v := view.Locks[0]; len(view.Locks) != 1 || v.Lock.Lock != "a" || v.Holders[0].Token != l.Token() || v.Waiters[0].Owner != "bob" || v.Holders[0].EndsInMS <= 0 {
		t.Errorf("got %+v", view)
	}
}

// TestViewOfKeptAndShared draws what is rare.
func TestViewOfKeptAndShared(t *testing.T) {
	var b strings.Builder
	err := writeLock(&b, fencelock.Status{Name: "x", Limit: 5, Grace: time.Minute, Waiting: 200, MoreHolders: 40,
		Holders: []fencelock.Holder{{Kept: true, EndsIn: time.Hour, Record: fencelock.Record{Owner: "ann", Trace: "00-ab"}, Mode: driver.Shared, Weight: 3}, {Linger: 2 * time.Second}},
		Waiters: []fencelock.Waiter{{Record: fencelock.Record{Owner: "bob", Labels: map[string]string{lockview.UnderLabel: "eve"}}, Weight: 1}}}, 0)
	must.OK(t, err)
	contains(t, b.String(), "lingers  2.0s after an unlock, free on request")
	contains(t, b.String(), "reserved, not held, 200 waiting, stored limit 5", "no new locks for 1m00s (grace period)", "reserved 1h00m more",
		"shared, weight 3", "00-ab", "and 40 more holders", "for eve, under whose lock it runs", "and 199 more")
}
