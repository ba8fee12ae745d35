// SPDX-License-Identifier: Apache-2.0

package fencelock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// A cron job on three replicas. The occurrence is the scheduled time, not the
// time of day: a replica whose clock is late finds that it has run.
func ExampleOnce() {
	ctx := context.Background()
	store := memstore.New(nil)
	scheduled := time.Date(2026, time.November, 15, 2, 0, 0, 0, time.UTC)

	for _, replica := range []string{"replica-1", "replica-2", "replica-3"} {
		c, err := fencelock.New(store, &fencelock.Options{Owner: replica})
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close(ctx)

		// The mark is kept for an hour: longer than any replica can be late.
		report := c.Once("report", time.Hour)
		res, err := report.Do(ctx, scheduled.Format(time.RFC3339), func(ctx context.Context, l *fencelock.Lease) error {
			return nil // the work; with an error another replica may run it
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(replica, ": ", res.Outcome)
		if res.Holder != nil {
			fmt.Print(" on ", res.Holder.Record.Owner)
		}
		fmt.Println()
	}
	// Output:
	// replica-1: ran
	// replica-2: already ran on replica-1
	// replica-3: already ran on replica-1
}
