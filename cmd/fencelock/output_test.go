// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

func TestWrap(t *testing.T) {
	if got, want := wrap("  - ", "one two three four", 4, 12), "  - one two\n    three\n    four\n"; got != want {
		t.Errorf("got %q", got)
	}
	if got := wrap("- ", "one two", 4, 0); got != "- one two\n" {
		t.Errorf("without a terminal: %q", got)
	}
	if got := wrap("", "averylongword", 4, 5); got != "averylongword\n" {
		t.Errorf("a word that does not fit: %q", got)
	}
}

// TestDoctorFits: on a terminal of eighty columns nothing is broken in the middle of a
// word.
func TestDoctorFits(t *testing.T) {
	d := &diagnosis{Server: "redis", Program: version(), Findings: []driver.Finding{
		{Severity: driver.Warning, Code: "eviction", Node: "127.0.0.1:6379", Reason: strings.Repeat("the reason is long ", 20), Fix: strings.Repeat("and so is the fix ", 9)}}}
	var b bytes.Buffer
	must.OK(t, writeDiagnosis(&b, d, 80))
	for line := range strings.Lines(b.String()) {
		if lipgloss.Width(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("too wide: %s", line)
		}
	}
}

// TestViewsAreDocumented: the pictures of the views on the page are what they look like.
func TestViewsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	must.OK(t, err)
	holder := func(owner, reason string, age time.Duration, token fencelock.Token) []fencelock.Holder {
		return []fencelock.Holder{{Record: fencelock.Record{Owner: owner, Reason: reason}, Age: age, EndsIn: 12 * time.Second, Token: token,
			Claim: driver.ClaimID{Session: driver.SessionID{0xf9, 0xc2, 0xaf, 0x44, 0xf2}}}}
	}
	bob := fencelock.Waiter{Record: fencelock.Record{Owner: "bob@ci-7:101", Labels: map[string]string{lockview.UnderLabel: "bob@ci-7:99"}}, Age: 3 * time.Second}
	eve := fencelock.Waiter{Record: fencelock.Record{Owner: "eve@laptop:7"}, Age: 2 * time.Second}
	locks := []fencelock.Status{
		{Name: "billing/nightly", Holders: holder("ann@web-1:4711", "monthly invoices", 3*time.Hour, 1024), Waiters: []fencelock.Waiter{bob}, Waiting: 1},
		{Name: "deploy", Holders: holder("bob@ci-7:99", "release 4.2", 2*time.Minute, 2048), Waiters: []fencelock.Waiter{eve}, Waiting: 1},
	}
	var b bytes.Buffer
	a := &app{out: &b, format: "table"}
	b.WriteString("$ fencelock ls\n")
	must.OK(t, a.list(locks))
	b.WriteString("\n$ fencelock why deploy\n")
	if _, err := a.explainAll(locks, "deploy"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "```\n"+b.String()+"```\n") {
		t.Errorf("docs/cli.md does not have this:\n%s", b.String())
	}
}

// TestLingeringLocksAreShown: ls, top and why show that a lock may be free on request.
func TestLingeringLocksAreShown(t *testing.T) {
	t.Parallel()
	const want = "lingers, free on request"
	st := lockAt("tenant/7", time.Minute, 10*time.Second, 1)
	st.Holders[0].Linger = time.Second
	st.Holders[0].Record.Reason = "sync"
	locks := []fencelock.Status{st}
	for _, wide := range []bool{false, true} {
		row := listRow(&st, wide)
		if got := row[len(row)-1]; got != want+"; sync" {
			t.Errorf("wide %v: reason %q", wide, got)
		}
	}
	s := &topScreen{width: 140, height: 20}
	s.took(locks, nil, time.Now())
	contains(t, s.render(), want)
	var out bytes.Buffer
	a := &app{out: &out, format: "table"}
	if circles, err := a.explainAll(locks, ""); circles || err != nil {
		t.Fatal(circles, err)
	}
	contains(t, out.String(), "held by ann@host:1 for 1m00s (sync), where it "+want+", which waits for no lock")
}
