// SPDX-License-Identifier: Apache-2.0

package redisquorum

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/storetest"
	"github.com/fencelock/fencelock/store/quorum"
)

// TestEveryServerHasItsURL: with user, database and parameters of the quorum's.
func TestEveryServerHasItsURL(t *testing.T) {
	nodes, err := nodeURLs("quorums://ann:s%40x@a,b:7000,[::1]:7001/2?grace=true")
	want := []node{
		{"a:6379", "rediss://ann:s%40x@a:6379/2?grace=true"},
		{"b:7000", "rediss://ann:s%40x@b:7000/2?grace=true"},
		{"[::1]:7001", "rediss://ann:s%40x@[::1]:7001/2?grace=true"},
	}
	if err != nil || !slices.Equal(nodes, want) {
		t.Errorf("got %v, %v, want %v", nodes, err, want)
	}
}

// TestOpenStoreSendsNothing: the servers of a quorum may be down when a process starts.
func TestOpenStoreSendsNothing(t *testing.T) {
	store, err := fencelock.OpenStore(t.Context(), "quorum://:hunter2@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?grace=true&max_ttl=30s&namespace=x&pool_size=3")
	must.OK(t, err)
	defer store.Close()
	if c := store.Caps(); !c.Grace || c.MaxTTL != 30*time.Second || c.Engine != "quorum of 3 × redis" {
		t.Errorf("got %+v", c)
	}
	found, err := store.(driver.Checker).Check(t.Context())
	if err != nil || len(found) != 3 {
		t.Fatalf("got %v, %v, want a finding for each server", found, err)
	}
	for _, f := range found {
		if f.Code != "unreachable" || f.Severity != driver.Danger || strings.Contains(f.String(), "hunter2") {
			t.Errorf("got %v", f)
		}
	}
}

// TestBadURL: errors show no secret.
func TestBadURL(t *testing.T) {
	storetest.Refused(t, func(url string) error { _, err := Open(t.Context(), url, nil); return err }, map[string]string{
		"redis://:hunter2@a,b,c":                 "must begin with quorum://",
		"quorum://:hunter2@a,b,c/x":              "number of a database",
		"quorum://:hunter2@a,b":                  "at least 3",
		"quorum://:hunter2@a,b,":                 "a host is missing",
		"quorum://:hunter2@a,b,a":                "twice",
		"quorum://:hunter2/x@a,b,c":              "write %2F",
		"quorum://:hunter2@a,b,c:port":           "a port",
		"quorum://:hunter2@a,b,c?grce=hunter2":   "did you mean grace?",
		"quorum://:hunter2@a,b,c?migrate=true":   "does nothing",
		"quorum://:hunter2@a,b,c?accept=hunter3": "Accept",
	})
}

// TestAlarmIsAFinding: a server that is back is a note, the others are warnings.
func TestAlarmIsAFinding(t *testing.T) {
	for want, a := range map[string]quorum.Alarm{
		"a:1: warning: away: refused (away)":        {Kind: quorum.NodeAway, Node: "a:1", Err: errors.New("refused")},
		"a:1: warning: clocks apart (clocks-apart)": {Kind: quorum.ClocksApart, Node: "a:1"},
		"a:1: note: back (back)":                    {Kind: quorum.NodeBack, Node: "a:1"},
	} {
		if got := finding(a).String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
