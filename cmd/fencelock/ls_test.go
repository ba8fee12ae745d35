// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/internal/must"
)

// holdAll takes locks of these names with one client.
func holdAll(t testing.TB, c *fencelock.Client, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := c.Mutex(name, fencelock.Reason("because "+name)).Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLs(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	contains(t, fencelockCLI(t, s.url(), "ls").want(0).err.String(), "no lock is held")
	if out := fencelockCLI(t, s.url(), "ls", "-o", "json").want(0).out.String(); strings.TrimSpace(out) != "[]" {
		t.Errorf("no locks in JSON: %q", out)
	}
	holdAll(t, s.client(t, &fencelock.Options{Owner: "ann"}), "orders/1", "orders/2")
	holdAll(t, s.client(t, &fencelock.Options{Owner: "bob"}), "stock")
	waiter := begin(t, s.url(), "run", "orders/2", "--", "true")
	until(t, "it waits", func() bool { return strings.Contains(waiter.err.String(), "waiting") })
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "orders/1 orders/2 stock"},
		{[]string{"orders/"}, "orders/1 orders/2"},
		{[]string{"--waited"}, "orders/2"},
		{[]string{"--owner", "bob"}, "stock"},
		{[]string{"--older-than", "1h"}, ""},
		{[]string{"nobody"}, ""},
	} {
		p := fencelockCLI(t, s.url(), append([]string{"ls", "-o", "name"}, tt.args...)...).want(0)
		if got := strings.Join(strings.Fields(p.out.String()), " "); got != tt.want {
			t.Errorf("ls %v: got %q, want %q", tt.args, got, tt.want)
		}
	}
	table := fencelockCLI(t, s.url(), "ls").want(0).out.String()
	contains(t, table, "NAME", "HOLDER", "ann", "because orders/1")
	contains(t, fencelockCLI(t, s.url(), "ls", "-o", "wide").want(0).out.String(), "TOKEN", "exclusive", "held")
	var views []lockview.Lock
	must.OK(t, json.Unmarshal([]byte(fencelockCLI(t, s.url(), "ls", "-o", "json").want(0).out.String()), &views))
	if len(views) != 3 || views[1].Waiting != 1 || views[1].Holders[0].Owner != "ann" || views[1].State != "held" {
		t.Errorf("got %+v", views)
	}
	contains(t, fencelockCLI(t, s.url(), "__complete", "why", "ord").want(0).out.String(), "orders/1\tann", "orders/2")
	fencelockCLI(t, s.url(), "ls", "-o", "xml").want(64)
	fencelockCLI(t, s.url(), "ls", "a", "b").want(64)
}

// TestLsThousand: a thousand locks are listed while another client reads, and not with KEYS.
func TestLsThousand(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("orders/%04d", i))
	}
	holdAll(t, c, names...)
	p := fencelockCLI(t, s.url(), "ls", "-o", "name").want(0)
	if got := strings.Fields(p.out.String()); len(got) != 1000 || got[999] != "orders/0999" {
		t.Errorf("%d locks", len(got))
	}
	stats, err := bounded(t, "redis-cli", "-u", s.url(), "info", "commandstats").Output()
	if err != nil {
		t.Skip("redis-cli is not installed; on Debian: apt-get install redis-tools")
	}
	if !strings.Contains(string(stats), "cmdstat_scan") || strings.Contains(string(stats), "cmdstat_keys") {
		t.Errorf("SCAN and never KEYS is wanted:\n%s", stats)
	}
}

func TestKeptReason(t *testing.T) {
	for reason, want := range map[string]string{"": "reserved, not held", "nightly": "reserved, not held; nightly"} {
		if got := noted("reserved, not held", reason); got != want {
			t.Errorf("%q: got %q, want %q", reason, got, want)
		}
	}
}
