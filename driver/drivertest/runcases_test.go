// SPDX-License-Identifier: Apache-2.0

package drivertest_test

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/store/memstore"
)

// stepped returns a harness on a new store whose clock it steps.
func stepped() *drivertest.Harness {
	mem := memstore.New(nil)
	return &drivertest.Harness{Open: func() (driver.Store, error) { return mem, nil }, Elapse: mem.StepClock}
}

// TestRunCases: every case runs once, on a harness that no other case uses at the
// same time, and two cases run at once.
func TestRunCases(t *testing.T) {
	var both sync.WaitGroup // the first case of each waits for the other's
	both.Add(2)
	way := func() func(t *testing.T) *drivertest.Harness {
		var busy atomic.Bool
		begun := false
		return func(t *testing.T) *drivertest.Harness {
			if busy.Swap(true) {
				t.Error("two cases at a time on one way")
			}
			t.Cleanup(func() { busy.Store(false) })
			if !begun {
				begun = true
				both.Done()
				both.Wait()
			}
			return stepped()
		}
	}
	cases := drivertest.Cases()
	report := drivertest.RunCases(t, cases, way(), way())
	if len(report.Results) != len(cases) {
		t.Fatalf("%d results of %d cases", len(report.Results), len(cases))
	}
	for i, r := range report.Results {
		if r.Case.Name != cases[i].Name {
			t.Errorf("result %d is of %s, want %s", i, r.Case.Name, cases[i].Name)
		}
	}
	if passed, failed, skipped := report.Counts(); passed < 80 || failed != 0 || skipped == 0 {
		t.Errorf("%d passed, %d failed, %d skipped", passed, failed, skipped)
	}
}

// TestRunCasesFails: in a separate process, a store that does not withdraw fails the
// subtest of the clause, cases that need a missing part of the harness are skipped, and -run
// selects cases.
func TestRunCasesFails(t *testing.T) {
	const flag = "DRIVERTEST_FORGETFUL"
	if os.Getenv(flag) != "" {
		drivertest.RunCases(t, drivertest.Cases(), func(*testing.T) *drivertest.Harness {
			mem := memstore.New(nil)
			return &drivertest.Harness{Open: func() (driver.Store, error) { return forgetful{mem}, nil }, Elapse: mem.StepClock, Soon: 100 * time.Millisecond}
		})
		return
	}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^TestRunCasesFails$/^(Q5|R1|S3)$")
	cmd.Env = append(os.Environ(), flag+"=1")
	text, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("a store that does not withdraw passed")
	}
	for _, want := range []string{"--- FAIL: TestRunCasesFails/Q5/inside_the_store", "violated: Withdraw grants to the next in the queue", "--- SKIP: TestRunCasesFails/R1/", "--- PASS: TestRunCasesFails/S3/expires", "skipped R1/"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the output lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "/O1/") {
		t.Errorf("a case that -run left out was run:\n%s", text)
	}
}
