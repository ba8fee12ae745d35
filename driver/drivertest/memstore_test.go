// SPDX-License-Identifier: Apache-2.0

package drivertest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/store/memstore"
)

func harness(opts *memstore.Options) *drivertest.Harness {
	store := memstore.New(opts)
	return &drivertest.Harness{
		Open:    func() (driver.Store, error) { return store, nil },
		Reset:   func() error { store.Reset(); return nil },
		Restart: func() error { store.Restart(); return nil },
		Checkpoint: func() func() error {
			snap := store.Snapshot()
			return func() error { store.Restore(snap); return nil }
		},
		Slack: time.Millisecond,
	}
}

// On one harness the cases must not disturb each other.
func TestCheckOnOneHarness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report, err := drivertest.Check(t.Context(), harness(&memstore.Options{Grace: true, Shards: 2}))
		if err != nil {
			t.Error(err)
		}
		if passed, _, skipped := report.Counts(); passed < 100 || skipped == 0 {
			t.Errorf("got %d passed and %d skipped, want more than 100 and some", passed, skipped)
		}
	})
}

// Without a bubble and with a store that has its own clock.
func TestCheckWithElapse(t *testing.T) {
	mem := memstore.New(&memstore.Options{Grace: true})
	h := &drivertest.Harness{
		Open:    func() (driver.Store, error) { return mem, nil },
		Elapse:  mem.StepClock,
		Reset:   func() error { mem.Reset(); return nil },
		Restart: func() error { mem.Restart(); return nil },
	}
	if _, err := drivertest.Check(t.Context(), h); err != nil {
		t.Error(err)
	}
}

// TestRunMakesAHarnessForEachCase: without a bubble, as for a real server.
func TestRunMakesAHarnessForEachCase(t *testing.T) {
	made := map[string]int{}
	drivertest.Run(t, func(t *testing.T) *drivertest.Harness {
		made[t.Name()]++
		mem := memstore.New(nil)
		return &drivertest.Harness{Open: func() (driver.Store, error) { return mem, nil }, Elapse: mem.StepClock}
	})
	for name, n := range made {
		if n != 1 {
			t.Errorf("%d harnesses for %s", n, name)
		}
	}
}

// forgetful is a store that answers every withdrawal with success and does
// nothing.
type forgetful struct{ driver.Store }

type forgetfulSession struct{ driver.Session }

func (s forgetful) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	session, renewal, err := s.Store.Open(ctx, req)
	return forgetfulSession{session}, renewal, err
}

func (s forgetfulSession) Withdraw(context.Context, driver.Withdrawal) (driver.Removed, error) {
	return driver.WasGranted, nil
}

func ExampleCheck() {
	mem := memstore.New(nil)
	report, _ := drivertest.Check(context.Background(), &drivertest.Harness{
		Open:   func() (driver.Store, error) { return forgetful{mem}, nil },
		Elapse: mem.StepClock,
		Soon:   100 * time.Millisecond,
	})
	for _, res := range report.Results {
		if res.Case.Clause.ID == "Q5" {
			text, _, _ := strings.Cut(res.Failures[0].Error(), "\n")
			fmt.Println(text)
		}
	}
	// Output: Q5/inside the store: violated: Withdraw grants to the next in the queue inside the store.
}
