// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// script is a tester whose n-th run gives the n-th list of events, and fails if one of them
// is a failure.
type script struct {
	runs [][]event
	args [][]string
}

func (s *script) test(args []string, each func(event)) error {
	s.args = append(s.args, args)
	events := s.runs[0]
	s.runs = s.runs[1:]
	var err error
	for _, e := range events {
		each(e)
		if strings.HasSuffix(e.Action, "fail") {
			err = errors.New("exit status 1")
		}
	}
	return err
}

// one are the events of a package with one test.
func one(action, output string) []event {
	events := []event{
		{"output", "p", "TestA", "--- " + action + "\n"}, {"output", "p", "TestA", output + "\n"}, {action, "p", "TestA", ""},
		{"output", "p", "", strings.ToUpper(action) + "\n"}, {action, "p", "", ""},
	}
	return events
}

func TestRun(t *testing.T) {
	many, cases := []event{}, []event{}
	for _, name := range []string{"A", "B", "C", "D"} {
		many = append(many, event{"fail", "p", "Test" + name, ""})
		cases = append(cases, event{"fail", "p", "TestA/group/" + name, ""})
	}
	cases = append(cases, event{"fail", "p", "TestA/group", ""}, event{"fail", "p", "TestA", ""}, event{"output", "p", "", "FAIL\n"}, event{"fail", "p", "", ""})
	for _, c := range []struct {
		name       string
		runs       [][]event
		err, print string
	}{
		{"all pass", [][]event{one("pass", "fine")}, "", ""},
		{"a test passes on its second try", [][]event{one("fail", "too late"), one("pass", "fine")}, "", "unsteady: TestA of p failed, and passed alone"},
		{"a test fails twice", [][]event{one("fail", "too late"), one("fail", "too late")}, "failed twice: TestA", "too late"},
		{"a second try that runs nothing", [][]event{one("fail", "too late"), {{"pass", "p", "", ""}}}, "failed twice: TestA", ""},
		{"a data race", [][]event{one("fail", "WARNING: DATA RACE")}, "DATA RACE", ""},
		{"a data race of a process that a test started", [][]event{one("fail", "    e2e_test.go:9: stderr: WARNING: DATA RACE")}, "DATA RACE", ""},
		{"a panic", [][]event{one("fail", "panic: test timed out after 10m0s")}, "timed out", ""},
		{"a package that does not build", [][]event{{{"build-fail", "", "", ""}, {"fail", "p", "", ""}}}, "does not build", ""},
		{"a test that does not end", [][]event{{{"run", "p", "TestA", ""}, {"output", "p", "TestA", "goroutine 1\n"}, {"fail", "p", "", ""}}}, "outside of its tests", "goroutine 1"},
		{"a package that ends early", [][]event{{{"fail", "p", "", ""}}}, "outside of its tests", ""},
		{"a test binary that ends in the middle", [][]event{{{"fail", "p", "TestA", ""}, {"run", "p", "TestB", ""}, {"fail", "p", "", ""}}}, "p ended before its tests did", ""},
		{"one test with more failed subtests than a slow machine explains", [][]event{cases}, "4 tests failed", ""},
		{"more failures than a slow machine explains", [][]event{many}, "4 tests failed", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{runs: c.runs}
			var out strings.Builder
			err := run(&out, s.test, []string{"-race", "./..."})
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if !strings.Contains(out.String(), c.print) {
				t.Errorf("printed %q, want %q in it", out.String(), c.print)
			}
			if len(s.runs) > 0 {
				t.Errorf("%d runs were not made", len(s.runs))
			}
		})
	}
}

// TestRunNamesMissingPrograms: a test that was skipped for want of a program is counted, and one that was skipped for another
// reason is not.
func TestRunNamesMissingPrograms(t *testing.T) {
	skip := func(test, why string) []event {
		return []event{{"output", "p", test, "    a_test.go:9: " + why + "\n"}, {"skip", "p", test, ""}}
	}
	events := slices.Concat(skip("TestA", "Chromium is not installed; on Debian: apt-get install chromium"), skip("TestB/one", "Chromium is not installed; install it"),
		skip("TestC", "a C compiler, which it takes to set a clock, is not installed; on Debian: apt-get install gcc"), skip("TestD", "start: jq is not installed; install it"),
		skip("TestE", "make figures-serve runs it"), []event{{"output", "p", "TestF", "    a_test.go:9: jq is not installed; it goes on\n"}, {"pass", "p", "TestF", ""}, {"pass", "p", "", ""}})
	var out strings.Builder
	must.OK(t, run(&out, (&script{runs: [][]event{events}}).test, nil))
	if want := "skipped: 4 tests need what is not installed: Chromium (2), a C compiler (1), jq (1)\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

// TestRunShowsWhatFailed: among hundreds of subtests the one that failed is found, and a race is shown whoever ran beside it.
func TestRunShowsWhatFailed(t *testing.T) {
	events := []event{
		{"output", "p", "TestA", "=== RUN A\n"}, {"output", "p", "TestA/one", "=== RUN one\n"}, {"output", "p", "TestA/two", "=== RUN two\n"},
		{"output", "p", "TestA/one", "    it works\n"}, {"output", "p", "TestA/two", "    it does not\n"}, {"output", "p", "TestA/three", race + "\n"},
		{"pass", "p", "TestA/one", ""}, {"fail", "p", "TestA/two", ""}, {"pass", "p", "TestA/three", ""}, {"output", "p", "TestA/four", "    left out\n"},
		{"skip", "p", "TestA/four", ""}, {"fail", "p", "TestA", ""}, {"output", "p", "", "FAIL\n"}, {"fail", "p", "", ""},
	}
	var out strings.Builder
	if run(&out, (&script{runs: [][]event{events}}).test, nil) == nil {
		t.Error("no error")
	}
	if want := "=== RUN A\n=== RUN two\n    it does not\n" + race + "\nFAIL\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestAlone(t *testing.T) {
	got := alone([]string{"-p", "1", "-race", "-skip", "^TestX$", "-run=TestY", "-timeout", "5m", "-parallel", "6", "-count=2", "./a/...", "./b", "-sim.seeds=100"},
		failure{"example.com/a", "TestA", []string{"TestA/one/case+1", "TestA/one", "TestA/two"}})
	want := []string{"-count=1", `-run=^(TestA)$/^(one|two)$/^(case\+1)$`, "example.com/a", "-race", "-timeout", "5m", "-parallel", "6", "-sim.seeds=100"}
	if !slices.Equal(got, want) {
		t.Errorf("arguments %q, want %q", got, want)
	}
}
