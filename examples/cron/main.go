// SPDX-License-Identifier: Apache-2.0

// Command cron runs a report once a minute, on whichever replica comes first. Start it on several machines:
//
//	go run ./examples/cron & go run ./examples/cron
//
// With the argument now it runs the occurrence of this minute and ends.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/examples/internal/start"
)

func main() { start.Main(run) }

func run(ctx context.Context, locks *fencelock.Client) error {
	once := locks.Once("report", time.Hour) // how long the mark of an occurrence stays: longer than any replica is late
	for {
		minute := time.Now().Truncate(time.Minute)
		// The occurrence is the scheduled time, the same on every replica. It is not the time at which a replica wakes up.
		result, err := once.Do(ctx, minute.UTC().Format(time.RFC3339), report)
		switch {
		case err != nil:
			return err
		case !result.Ran:
			fmt.Println("another replica has it")
		}
		if len(os.Args) > 1 && os.Args[1] == "now" {
			return nil
		}
		select {
		case <-time.After(time.Until(minute.Add(time.Minute))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func report(ctx context.Context, l *fencelock.Lease) error {
	fmt.Println("running", l.Name(), "with token", l.Token())
	return ctx.Err() // ctx ends if the lock is lost
}
