// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// A schedule is a job that every replica wakes up for and one of them runs.
type schedule struct {
	every time.Duration
	once  *fencelock.Once
}

// newSchedule keeps the mark of an occurrence for a whole period more: a replica
// that is later than that has missed the occurrence anyway.
func newSchedule(locks *fencelock.Client, name string, every time.Duration) *schedule {
	return &schedule{every, locks.Once(name, 2*every)}
}

// tick is called by the replica's own timer. The occurrence is the scheduled time,
// and not the time of the call: a mutex would be free again when a replica comes
// whose clock is a second late, and the job would run once for each replica.
//
// It does not wait for a replica that runs the job. If that run fails, the occurrence
// runs again only if tick is called again.
//
// Add the option MinHold(2*every) to Once if a run that failed, or whose machine
// died, must not be tried again by another.
func (s *schedule) tick(ctx context.Context, now time.Time, job func(ctx context.Context, due time.Time) error) (fencelock.OnceResult, error) {
	due := now.UTC().Truncate(s.every)
	return s.once.Do(ctx, due.Format(time.RFC3339), func(ctx context.Context, _ *fencelock.Lease) error {
		return job(ctx, due)
	})
}

// A report every quarter of an hour on three replicas with three clocks.
func Example_cron() {
	ctx := context.Background()
	store := memstore.New(nil) // in a program: redisstore.Open(ctx, url, nil)
	midnight := time.Date(2026, time.November, 15, 0, 0, 0, 0, time.UTC)

	for _, replica := range []struct {
		name  string
		clock time.Time
		fails bool
	}{
		{"replica-1", midnight.Add(3 * time.Millisecond), true}, // its disk is full
		{"replica-2", midnight.Add(20 * time.Millisecond), false},
		{"replica-3", midnight.Add(9 * time.Second), false}, // its clock is late
	} {
		locks := process(store, replica.name)
		defer locks.Close(ctx)
		res, err := newSchedule(locks, "report", 15*time.Minute).tick(ctx, replica.clock,
			func(_ context.Context, due time.Time) error {
				if replica.fails {
					return errors.New("no space left")
				}
				fmt.Println("  the report of", due.Format("15:04"))
				return nil
			})
		fmt.Print(replica.name, ": ", res)
		if res.Holder != nil {
			fmt.Print(", on ", res.Holder.Record.Owner)
		}
		if err != nil {
			fmt.Print(": ", err)
		}
		fmt.Println()
	}
	// Output:
	// replica-1: failed: no space left
	//   the report of 00:00
	// replica-2: ran
	// replica-3: already ran, on replica-2
}
