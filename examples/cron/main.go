// SPDX-License-Identifier: Apache-2.0

// Command cron runs a report once a minute, on whichever replica comes first. Start it on several machines:
//
//	go run ./examples/cron & go run ./examples/cron
//
// With the argument now it runs the occurrence of this minute and ends.
package main

import (
	"context"
	"errors"
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
		if err := runOnce(ctx, once, minute); err != nil {
			fmt.Println("no report of this minute:", err) // the next one is another occurrence
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

// runOnce tries until some replica has made the report of a minute: the one that began may fail, or die.
func runOnce(ctx context.Context, once *fencelock.Once, minute time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, minute.Add(time.Minute))
	defer cancel()
	for {
		// The occurrence is the scheduled time, the same on every replica. It is not the time at which a replica wakes up.
		result, err := once.Do(ctx, minute.UTC().Format(time.RFC3339), report)
		switch {
		case result.Done && err == nil:
			if !result.Ran {
				fmt.Println("another replica has it")
			}
			return nil
		case err != nil:
			fmt.Println("trying again:", err)
		default:
			fmt.Println("another replica is at it")
		}
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

func report(ctx context.Context, l *fencelock.Lease) error {
	fmt.Println("running", l.Name(), "with token", l.Token())
	return ctx.Err() // ctx ends if the lock is lost
}
