// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/internal/must"
)

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
		Holders: []fencelock.Holder{{Kept: true, EndsIn: time.Hour, Record: fencelock.Record{Owner: "ann", Trace: "00-ab"}, Mode: fencelock.Shared, Weight: 3}, {Linger: 2 * time.Second}},
		Waiters: []fencelock.Waiter{{Record: fencelock.Record{Owner: "bob", Labels: map[string]string{lockview.UnderLabel: "eve"}}, Weight: 1}}}, 0)
	must.OK(t, err)
	contains(t, b.String(), "lingers  2.0s after an unlock, free on request")
	contains(t, b.String(), "reserved, not held, 200 waiting, stored limit 5", "no new locks for 1m00s (grace period)", "reserved 1h00m more",
		"shared, weight 3", "00-ab", "and 40 more holders", "for eve, under whose lock it runs", "and 199 more")
}
