// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/lab/torture/internal/cell"
	"github.com/fencelock/fencelock/lab/torture/internal/check"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
)

var results = []cell.Result{
	{Deployment: "redis", Fault: "flushall", Seed: 3, Status: cell.Allowed, Reason: "failed: T 1 times", Plan: "1s flush server:0", Grants: 2,
		Counts:     map[check.Property]int{check.T: 1, check.U: 2},
		Violations: []check.Violation{{Check: "D3", Property: check.T, At: 3e9, Text: "b <was> granted"}},
		Events: []history.Event{
			{At: 1e9, Kind: history.Ask, Who: "c0", Lock: "l"}, {At: 2e9, Kind: history.Grant, Who: "c0", Lock: "l"},
			{At: 2e9, Kind: history.Fault, Text: "flush"}, {At: 3e9, Kind: history.Healed, Text: "flush", Until: 35e8},
			{At: 4e9, Kind: history.Release, Who: "c0", Lock: "l"},
		}},
	{Deployment: "redis", Fault: "failover", Status: cell.NotApplicable, Reason: "nothing to promote"},
	{Deployment: "quorum-5", Fault: "calm", Seed: 3, Status: cell.Failed, Reason: "W 1 times", Must: []check.Property{check.W},
		Violations: []check.Violation{{Check: "D8", Property: check.O, At: 1, Text: "overtaken"}, {Check: "D6", Property: check.W, At: 2, Text: "not woken"}}},
	{Deployment: "quorum-5", Fault: "delay", Status: cell.NotRun, Reason: "it ended:\n  no port"},
	{Deployment: "quorum-5", Fault: "mix", Status: cell.Held, Undecided: []string{"timed"}},
}

func TestTally(t *testing.T) {
	if ran, failed := Tally(results); ran != 3 || failed != 1 {
		t.Errorf("got %d ran, %d failed; want 3 and 1: what was not run did not hold", ran, failed)
	}
}

func TestReports(t *testing.T) {
	var b strings.Builder
	must.OK(t, HTML(&b, results, time.Unix(0, 0)))
	for _, want := range []string{`href="#redis-flushall-3"`, `id="redis-flushall-3"`, "b &lt;was&gt; granted", "1 of 3 cells failed",
		"-server redis -fault flushall -seed 3", `class="s-hold"`, `class="s-fault"`, `class="s-after"`, "nothing to promote"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page has no %s", want)
		}
	}
	for _, bad := range []string{"<script", "http://", "https://", "ZgotmplZ"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("the page has %s; it must be readable alone", bad)
		}
	}
	want := "| Fault | redis | quorum-5 |\n| --- | --- | --- |\n| flushall | T 1, U 2 | – |\n| failover | n/a | – |\n| calm | – | FAILED |\n| delay | – | not run |\n| mix | – | held, P undecided (timed) |\n"
	if got := Matrix(results); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if n := Undecided(results); n != 1 || !strings.Contains(b.String(), "P undecided (timed)") || !strings.Contains(Text(results), "P undecided (timed)") {
		t.Errorf("what Porcupine did not decide is counted as %d, want 1, and said on the page and in the summary", n)
	}
	if text := Text(results); !strings.Contains(text, "nothing to promote") || strings.Count(text, "\n") < len(results) {
		t.Errorf("the summary leaves something out:\n%s", text)
	}
}

// TestBlock: the block of a document says which run it is, how it ended, and why a
// cell is not green, whatever stands around it.
func TestBlock(t *testing.T) {
	got := Block(results, Source{Command: "go run ./lab/torture -seed 3", Seed: 3, When: time.Unix(0, 0), Commit: "0123456789ab"})
	want := "Seed 3, 1970-01-01 00:00 UTC, commit 0123456789ab, by `go run ./lab/torture -seed 3`: 3 cells run, of which 1 held, 1 failed where that is allowed, and 1 FAILED. " +
		"Not run: 1; n/a: 1; P undecided: 1.\n\n" + Matrix(results) +
		"\nWhat FAILED:\n\n- calm on quorum-5, seed 3: W 1 times. D6 (W): not woken\n" +
		"\nWhy not run:\n\n- it ended: no port: delay on quorum-5\n" +
		"\nWhy n/a:\n\n- nothing to promote: failover on redis\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if long := plain(strings.Repeat("é", 400)); len([]rune(long)) > 310 {
		t.Errorf("a reason of 400 characters is shown with %d", len([]rune(long)))
	}
}
