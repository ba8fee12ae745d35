// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock/torture/internal/engine"
	"github.com/fencelock/fencelock/torture/internal/fault"
	"github.com/fencelock/fencelock/torture/internal/history"
)

// overlap has two holders at once; twice has one token twice, one after the other.
var (
	overlap = []history.Event{
		{At: 1, Kind: history.Ask, Who: "a", Lock: "l"}, {At: 2, Kind: history.Grant, Who: "a", Lock: "l", Token: 1, Until: 1e9},
		{At: 2, Kind: history.Ask, Who: "b", Lock: "l"}, {At: 3, Kind: history.Grant, Who: "b", Lock: "l", Token: 2, Until: 1e9},
	}
	twice = []history.Event{
		{At: 1, Kind: history.Ask, Who: "a", Lock: "l"}, {At: 2, Kind: history.Grant, Who: "a", Lock: "l", Token: 1, Until: 1e9},
		{At: 3, Kind: history.Release, Who: "a", Lock: "l", Token: 1, Until: 1e9},
		{At: 3, Kind: history.Ask, Who: "b", Lock: "l"}, {At: 4, Kind: history.Grant, Who: "b", Lock: "l", Token: 1, Until: 1e9},
	}
)

// fallen has a token that is lower than one that was granted before it was asked for.
var fallen = []history.Event{
	{At: 1, Kind: history.Ask, Who: "a", Lock: "l"}, {At: 2, Kind: history.Grant, Who: "a", Lock: "l", Token: 2, Until: 1e9},
	{At: 3, Kind: history.Release, Who: "a", Lock: "l", Token: 2, Until: 1e9}, {At: 4, Kind: history.Released, Who: "a", Lock: "l"},
	{At: 5, Kind: history.Ask, Who: "b", Lock: "l"}, {At: 6, Kind: history.Grant, Who: "b", Lock: "l", Token: 1, Until: 1e9},
}

// told adds the list of the resource at the end; wrote has an acknowledged value
// that is not in it.
var (
	told = func(events []history.Event) []history.Event {
		return append(slices.Clip(events), history.Event{At: 10, Kind: history.Final, Lock: "l", Register: history.Fenced})
	}
	wrote = append(slices.Clip(overlap[:2]), history.Event{At: 3, Kind: history.Wrote, Who: "a", Lock: "l", Register: history.Fenced, Token: 1, Value: "x"})
)

func TestJudge(t *testing.T) {
	kind := func(name string) fault.Kind {
		k, ok := fault.Named(name)
		if !ok {
			t.Fatalf("there is no fault %q", name)
		}
		return k
	}
	e := func(name string) engine.Engine {
		e, ok := engine.Named(name)
		if !ok {
			t.Fatalf("there is no engine %q", name)
		}
		return e
	}
	for _, tt := range []struct {
		name   string
		engine string
		fault  string
		events []history.Event
		stall  time.Duration
		want   Status
	}{
		{"all is well", "redis", "calm", told(overlap[:2]), 0, Held},
		{"two holders though nothing forgets", "redis", "client-kill", told(overlap), 0, Failed},
		{"two holders after a loss of memory", "redis", "flushall", told(overlap), 0, Allowed},
		{"the same with grace", "redis-grace", "flushall", told(overlap), 0, Failed},
		{"two holders on a machine that stalls", "redis", "client-kill", told(overlap), time.Second, NotRun},
		{"a token twice is excused by nothing", "redis", "flushall", told(twice), time.Second, Failed},
		{"a token falls", "redis", "server-kill", told(fallen), 0, Failed},
		{"a token falls where a server that was replaced comes back", "sentinel-grace", "server-kill", told(fallen), 0, Allowed},
		{"a token falls where none comes back", "sentinel-grace", "client-kill", told(fallen), 0, Failed},
		{"a token falls on an engine that votes", "etcd", "leader-cut-off", told(fallen), 0, Failed},
		{"an acknowledged value is gone", "redis", "calm", told(wrote), 0, Failed},
		{"nobody knows what the list kept", "redis", "calm", wrote, 0, NotRun},
		{"the last state of another list", "redis", "calm", append(slices.Clip(wrote), history.Event{At: 10, Kind: history.Final, Lock: "l", Register: history.Unfenced}), 0, NotRun},
		{"nothing was written, and nobody told", "redis", "calm", overlap[:2], 0, NotRun},
		{"a violation needs no end", "redis", "client-kill", overlap, 0, Failed},
		{"no grant at all", "redis", "calm", overlap[:1], 0, NotRun},
	} {
		c := Cell{Engine: e(tt.engine), Fault: kind(tt.fault)}.settled()
		if got := Judge(c, tt.events, tt.stall); got.Status != tt.want {
			t.Errorf("%s: got %s (%s), want %s", tt.name, got.Status, got.Reason, tt.want)
		}
	}
}

// TestPictures: where both searches are about T, both pictures are kept.
func TestPictures(t *testing.T) {
	e, _ := engine.Named("sentinel-grace")
	k, _ := fault.Named("server-kill")
	r := Judge(Cell{Engine: e, Fault: k, Seed: 1}.settled(), told(fallen), 0)
	if len(r.Pictures) != 2 || r.Picture("timed") == r.Picture("untimed") {
		t.Errorf("got %d pictures, want 2 of different names", len(r.Pictures))
	}
}
