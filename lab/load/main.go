// SPDX-License-Identifier: Apache-2.0

// Command load uses locks on real servers as large fleets do, and for as long.
//
//	load soak -for 35m -parallel 4        every server under random faults: does something grow?
//	load soak -server redis-grace -for 3m -out /tmp/soak
//	load event failover                   what happens to fleets: failover, restart, death, hot, slow, step
//	load event restart -sessions 500 -out /tmp/events
//	load kept                             the results that are kept, their figures, and the picture of a restart
//
// Results are kept in lab/load/results, and lab/results/scale.md shows them. The clients are processes: this program
// again, with another first argument.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/fencelock/fencelock/lab/load/internal/event"
	"github.com/fencelock/fencelock/lab/load/internal/soak"
)

var (
	soakResults  = filepath.Join("lab", "load", "results", "soak")
	eventResults = filepath.Join("lab", "load", "results", "events")
	picture      = filepath.Join("lab", "results", "scale", "storm.svg")
)

func main() {
	err := route(os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// route finds out which of the processes this is.
func route(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) == 0 {
		args = []string{""}
	}
	switch rest := args[1:]; args[0] {
	case soak.ClientCommand:
		return soak.Client(os.Stdin, os.Stdout)
	case event.MemberCommand:
		return event.Member(os.Stdin, os.Stdout)
	case "soak":
		return soak.Run(ctx, rest, soakResults)
	case "event":
		return event.Run(ctx, rest, eventResults)
	case "kept":
		return errors.Join(event.Kept(eventResults, picture), soak.Kept(soakResults))
	}
	return fmt.Errorf("%q: want soak, event or kept; see lab/load/main.go", args[0])
}
