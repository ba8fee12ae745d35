// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/lab/internal/deployment"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
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

// sequel is what every run has after that, far from it: a fenced write, a handoff
// to one who waited, and the list at the end.
var sequel = []history.Event{
	{At: 20e8, Kind: history.Ask, Who: "c", Lock: "l"}, {At: 20e8 + 1, Kind: history.Grant, Who: "c", Lock: "l", Token: 8, Until: 30e8},
	{At: 20e8 + 2, Kind: history.Wrote, Who: "c", Lock: "l", Register: history.Fenced, Token: 8, Value: "y"},
	{At: 20e8 + 3, Kind: history.Ask, Who: "d", Lock: "l"}, {At: 20e8 + 4, Kind: history.Release, Who: "c", Lock: "l", Token: 8, Until: 30e8},
	{At: 20e8 + 5, Kind: history.Released, Who: "c", Lock: "l"}, {At: 20e8 + 6, Kind: history.Grant, Who: "d", Lock: "l", Token: 9, Until: 30e8},
	{At: 20e8 + 7, Kind: history.Release, Who: "d", Lock: "l", Token: 9, Until: 30e8}, {At: 20e8 + 8, Kind: history.Released, Who: "d", Lock: "l"},
	{At: 20e8 + 9, Kind: history.Final, Lock: "l", Register: history.Fenced, List: []string{"y"}},
}

// notified adds the sequel, without those of its events that are named by their number.
func notified(events []history.Event, without ...int) []history.Event {
	all := slices.Clone(events)
	for i, e := range sequel {
		if !slices.Contains(without, i) {
			all = append(all, e)
		}
	}
	return all
}

// wrote has an acknowledged value that is not in the list at the end; late has a
// fault whose consequences last until after the handoff.
var (
	wrote = append(slices.Clone(overlap[:2]), history.Event{At: 3, Kind: history.Wrote, Who: "a", Lock: "l", Register: history.Fenced, Token: 1, Value: "x"})
	late  = []history.Event{{At: 1, Kind: history.Fault, Text: "cut"}, {At: 2, Kind: history.Healed, Text: "cut", Until: 25e8}}
)

func TestJudge(t *testing.T) {
	kind := func(name string) fault.Kind {
		k, ok := fault.Named(name)
		if !ok {
			t.Fatalf("there is no fault %q", name)
		}
		return k
	}
	e := func(name string) deployment.Deployment {
		e, ok := deployment.Named(name)
		if !ok {
			t.Fatalf("there is no deployment %q", name)
		}
		return e
	}
	for _, tt := range []struct {
		name       string
		deployment string
		fault      string
		events     []history.Event
		stall      time.Duration
		stuck      error
		want       Status
	}{
		{"all is well", "redis", "calm", notified(nil), 0, nil, Held},
		{"no token, so nothing to show to a guard", "redis", "calm", tokenless(notified(nil, 2)), 0, nil, Held},
		{"no fenced write was acknowledged", "redis", "calm", notified(nil, 2), 0, nil, NotRun},
		{"no client waited for a release", "redis", "calm", notified(nil, 3, 6, 7, 8), 0, nil, NotRun},
		{"no client was woken but while a fault excused it", "redis", "client-cut", notified(late), 0, nil, NotRun},
		{"a client that hangs, in a cell that shows nothing else", "redis", "calm", notified(nil, 2), 0, errors.New("not every client"), Failed},
		{"the same on a machine that stalls", "redis", "calm", notified(nil, 2), time.Second, errors.New("not every client"), NotRun},
		{"two holders though no data is lost", "redis", "client-kill", notified(overlap), 0, nil, Failed},
		{"two holders after a data loss", "redis", "flushall", notified(overlap), 0, nil, Allowed},
		{"the same with grace", "redis-grace", "flushall", notified(overlap), 0, nil, Failed},
		{"two holders on a machine that stalls", "redis", "client-kill", notified(overlap), time.Second, nil, NotRun},
		{"a token twice is excused by nothing", "redis", "flushall", notified(twice), time.Second, nil, Failed},
		{"a token falls", "redis", "server-kill", notified(fallen), 0, nil, Failed},
		{"a token falls where a server that was replaced comes back", "sentinel-grace", "server-kill", notified(fallen), 0, nil, Allowed},
		{"a token falls where none comes back", "sentinel-grace", "client-kill", notified(fallen), 0, nil, Failed},
		{"a token falls on a deployment that votes", "etcd", "leader-cut-off", notified(fallen), 0, nil, Failed},
		{"an acknowledged value is gone", "redis", "calm", notified(wrote), 0, nil, Failed},
		{"what the list kept is unknown", "redis", "calm", wrote, 0, nil, NotRun},
		{"the last state of another list", "redis", "calm", append(slices.Clip(wrote), history.Event{At: 10, Kind: history.Final, Lock: "l", Register: history.Unfenced}), 0, nil, NotRun},
		{"nothing was written, and nothing reported", "redis", "calm", overlap[:2], 0, nil, NotRun},
		{"a violation needs no end", "redis", "client-kill", overlap, 0, nil, Failed},
		{"no grant at all", "redis", "calm", overlap[:1], 0, nil, NotRun},
	} {
		c := Cell{Deployment: e(tt.deployment), Fault: kind(tt.fault)}.withDefaults()
		if got := Judge(c, tt.events, tt.stall, tt.stuck); got.Status != tt.want {
			t.Errorf("%s: got %s (%s), want %s", tt.name, got.Status, got.Reason, tt.want)
		}
	}
}

// tokenless takes the tokens out.
func tokenless(events []history.Event) []history.Event {
	for i := range events {
		events[i].Token = 0
	}
	return events
}

// TestPictures: where both searches are about T, both pictures are kept.
func TestPictures(t *testing.T) {
	e, _ := deployment.Named("sentinel-grace")
	k, _ := fault.Named("server-kill")
	r := Judge(Cell{Deployment: e, Fault: k, Seed: 1}.withDefaults(), notified(fallen), 0, nil)
	if len(r.Pictures) != 2 || r.Picture("timed") == r.Picture("untimed") {
		t.Errorf("got %d pictures, want 2 of different names", len(r.Pictures))
	}
}

// TestLingeringCellsMustLinger: a cell about locks that linger proves nothing if none was locked
// again without a round trip, or none went to another client.
func TestLingeringCellsMustLinger(t *testing.T) {
	grant := func(who string, token int64) history.Event {
		return history.Event{Kind: history.Grant, Who: who, Lock: "l0", Token: token}
	}
	for _, tt := range []struct {
		events []history.Event
		want   string
	}{
		{[]history.Event{grant("a", 256), grant("a", 257), grant("b", 512)}, ""},
		{[]history.Event{grant("a", 256), grant("a", 512), grant("b", 768)}, "without a round trip"},
		{[]history.Event{grant("a", 256), grant("a", 257)}, "went to another client"},
	} {
		if got := unlingered(tt.events); tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%v: %q, want %q", tt.events, got, tt.want)
		}
	}
}
