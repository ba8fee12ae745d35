// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

func TestEveryClauseHasACase(t *testing.T) {
	count := map[string]int{}
	for _, c := range Clauses() {
		if count[c.ID]++; count[c.ID] > 1 {
			t.Errorf("clause %s is there %d times", c.ID, count[c.ID])
		}
	}
	names := map[string]bool{}
	cases := map[string]int{}
	for _, c := range Cases() {
		if names[c.Name] {
			t.Errorf("two cases are called %s", c.Name)
		}
		names[c.Name] = true
		cases[c.Clause.ID]++
	}
	for id := range count {
		if cases[id] == 0 {
			t.Errorf("clause %s has no case", id)
		}
	}
}

// TestNoCaseIsLost finds a case of a clause that does not exist, and a list of
// cases that Cases leaves out, by counting the lines they are written on.
func TestNoCaseIsLost(t *testing.T) {
	written := regexp.MustCompile(`(?m)^\t\{"[A-Z]\d+", "[^"]+", (nil|all\(.*\)), \w+\},$`)
	files, err := os.ReadDir(".")
	must.OK(t, err)
	want := 0
	for _, f := range files {
		if text, err := os.ReadFile(f.Name()); err == nil && strings.HasSuffix(f.Name(), ".go") {
			want += len(written.FindAll(text, -1))
		}
	}
	if got := len(Cases()); got != want {
		t.Errorf("Cases returns %d cases, %d are written down", got, want)
	}
}

// TestRulesAreThoseOfTheSpecification compares word for word, in order.
func TestRulesAreThoseOfTheSpecification(t *testing.T) {
	text, err := os.ReadFile("../../docs/spec.md")
	must.OK(t, err)
	var want []Clause
	for _, m := range regexp.MustCompile(`(?m)^- \*\*([SOTQWLHXRI]\d+)\*\* (.*)$`).FindAllStringSubmatch(string(text), -1) {
		want = append(want, Clause{m[1], m[2]})
	}
	got := Clauses()
	if len(got) != len(want) {
		t.Errorf("got %d clauses, docs/spec.md has %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("got clause\n%v, docs/spec.md has\n%v", got[i], want[i])
		}
	}
}

// TestDisrupts: a case without a function of the Harness that loses something runs,
// and only such a case.
func TestDisrupts(t *testing.T) {
	disrupting := 0
	for _, c := range Cases() {
		skipped := strings.Contains(c.unmet(&Harness{}, driver.Caps{}), "Harness.")
		if c.Disrupts() != skipped {
			t.Errorf("%s: Disrupts is %t, but without losses skipped is %t", c.Name, c.Disrupts(), skipped)
		}
		if skipped {
			disrupting++
		}
	}
	if disrupting == 0 || disrupting == len(Cases()) {
		t.Errorf("%d of %d cases disrupt", disrupting, len(Cases()))
	}
}

// hollow is a store that has Caps and nothing else.
type hollow struct {
	driver.Store
	caps driver.Caps
}

func (s hollow) Caps() driver.Caps        { return s.caps }
func (s hollow) Shard(name string) string { return "" }

func (s hollow) Open(context.Context, driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	return nil, driver.Renewal{}, fmt.Errorf("hollow: %w", driver.ErrUnavailable)
}

func hollowHarness(caps driver.Caps) *Harness {
	return &Harness{Open: func() (driver.Store, error) { return hollow{caps: caps}, nil }}
}

func TestFailureNamesClauseRuleAndLine(t *testing.T) {
	c := caseNamed(t, "S3/expires")
	res := c.Check(t.Context(), hollowHarness(driver.Caps{}))
	if len(res.Failures) != 1 {
		t.Fatalf("got %d failures, want 1", len(res.Failures))
	}
	text := res.Failures[0].Error()
	for _, want := range []string{
		`^S3/expires: violated: A session that is not kept alive ends when its TTL has passed, not before`,
		`\tcase session\.go:\d+, failed at session\.go:\d+\n`,
		`Open with a TTL of 30s: hollow: store unavailable`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("failure\n%s\ndoes not match %s", text, want)
		}
	}
}

func TestFailurePointsIntoTheCase(t *testing.T) {
	c := caseNamed(t, "S3/expires")
	c.body = func(t *scene) {
		t.fatalf("here")
	}
	f := c.Check(t.Context(), hollowHarness(driver.Caps{})).Failures[0]
	if !strings.HasPrefix(f.Source, "suite_test.go:") || !strings.HasPrefix(f.Line, "suite_test.go:") || f.Source == f.Line {
		t.Errorf("case is at %s and failed at %s, want two lines of suite_test.go", f.Source, f.Line)
	}
}

func TestPanicIsAFailure(t *testing.T) {
	// hollow has no Inspect.
	res := caseNamed(t, "I2/never used").Check(t.Context(), hollowHarness(driver.Caps{}))
	if len(res.Failures) != 1 || !strings.Contains(res.Failures[0].Text, "panic: ") {
		t.Errorf("got failures %v, want one about a panic", res.Failures)
	}
}

func TestSkippedIsCountedWithReasons(t *testing.T) {
	report, err := Check(t.Context(), hollowHarness(driver.Caps{Engine: "hollow"}))
	if err == nil {
		t.Error("a hollow store passed")
	}
	passed, failed, skipped := report.Counts()
	if passed != 0 || failed == 0 || skipped == 0 || failed+skipped != len(Cases()) {
		t.Errorf("got %d passed, %d failed, %d skipped of %d", passed, failed, skipped, len(Cases()))
	}
	text := report.String()
	for _, want := range []string{
		fmt.Sprintf("server hollow: %d cases: 0 passed, %d failed, %d skipped", len(Cases()), failed, skipped),
		"\nskipped Q1/first come first served: needs Caps.Queue\n",
		"\nskipped R2/queued: needs Harness.Reset and Caps.Grace and Caps.Queue\n",
		"\nskipped L1/together: needs Caps.Shared\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("report does not contain %q", want)
		}
	}
}

func TestClaimedCapabilityIsNotSkipped(t *testing.T) {
	caps := driver.Caps{
		Fencing: driver.Strict, Grace: true, Queue: true, Push: true, Contended: driver.NoticeAtOnce, Linger: true, Shared: true,
		Reentry: true, Hold: true, Floor: true, Listing: true, MinTTL: 2, MaxTTL: 1 << 40,
	}
	h := hollowHarness(caps)
	h.Reset = func() error { return nil }
	h.Restart = h.Reset
	h.Checkpoint = func() func() error { return h.Reset }
	h.Sever = func() func() { return func() {} }
	for _, c := range Cases() {
		why := c.unmet(h, caps)
		if why != "" && !strings.HasPrefix(why, "needs a store without ") {
			t.Errorf("%s is skipped on a store that can do everything: %s", c.Name, why)
		}
	}
}

func TestCheckStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report, err := Check(ctx, hollowHarness(driver.Caps{}))
	if report == nil || len(report.Results) > 0 || err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("got report %v and error %v, want an empty one and the context's", report, err)
	}
}

func TestHarnessWithoutOpen(t *testing.T) {
	res := Cases()[0].Check(t.Context(), &Harness{})
	if len(res.Failures) != 1 || !strings.Contains(res.Failures[0].Error(), "Harness.Open is required") {
		t.Errorf("got %v, want a failure that names Harness.Open", res.Failures)
	}
}

func caseNamed(t *testing.T, name string) Case {
	t.Helper()
	for _, c := range Cases() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no case %s", name)
	return Case{}
}
