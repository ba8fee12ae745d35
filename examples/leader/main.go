// SPDX-License-Identifier: Apache-2.0

// Command leader works while it leads. Start two, and end the first: the second one takes over at once.
//
//	go run ./examples/leader & go run ./examples/leader
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/examples/internal/start"
)

func main() { start.Main(run) }

func run(ctx context.Context, locks *fencelock.Client) error {
	return locks.Election("scheduler").Run(ctx, func(ctx context.Context, term *fencelock.Lease) error {
		fmt.Println("leading, term", term.Token())
		for {
			select {
			case <-time.After(time.Second):
				fmt.Println("still leading") // a batch of work; write with the token of the term
			case <-ctx.Done(): // the term is over, or the program is asked to end
				return ctx.Err()
			}
		}
	})
}
