// SPDX-License-Identifier: Apache-2.0

// Command events does to a fleet of clients what happens to fleets: the server fails over, all
// clients restart at once, a client with a million leases dies, the holder of a lock with thousands of
// waiters dies, the server is slow for a
// minute, the clocks of all clients step.
//
//	events -event failover                       one event, result into lab/events/results
//	events -event restart -sessions 500 -out /tmp/results
//	events kept lab/events/results docs/scale/storm.svg   the results that are kept, their figures, and a picture
//
// The clients are in several processes. The sessions of a process share a store and its connections, as the goroutines
// of a program do; each of them has its own keep-alive, so the server sees a process in each of them.
// Each client counts its requests in bins of 100 ms, on the clock of the machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	err := route(os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "events:", err)
		os.Exit(1)
	}
}

// route finds out which of the processes this is.
func route(args []string) error {
	if len(args) > 0 && args[0] == "member" {
		return serve(os.Stdin, os.Stdout)
	}
	if len(args) > 0 && args[0] == "kept" {
		return kept(args[1:])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, args)
}

// size is how large an event is.
type size struct {
	// Processes have the sessions, in equal parts; each session has the leases.
	Processes int           `json:"processes"`
	Sessions  int           `json:"sessions"`
	Leases    int           `json:"leases"`
	TTL       time.Duration `json:"ttl"`
}

// event is something that happens to a fleet.
type event struct {
	usual size
	run   func(ctx context.Context, s size) (*Result, error)
}

var events = map[string]event{
	"failover": {size{4, 5000, 100, time.Minute}, failover},
	"restart":  {size{4, 5000, 1, 15 * time.Second}, restart},
	"death":    {size{1, 1, 1_000_000, 15 * time.Second}, death},
	"hot":      {size{4, 5000, 1, 15 * time.Second}, hot},
	"slow":     {size{4, 5000, 1, 15 * time.Second}, slow},
	"step":     {size{4, 5000, 1, 15 * time.Second}, step},
}

func run(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("events", flag.ContinueOnError)
	name := fs.String("event", "", "which: "+strings.Join(slices.Sorted(maps.Keys(events)), ", "))
	sessions := fs.Int("sessions", 0, "how many sessions; by default as many as in the documents")
	leases := fs.Int("leases", 0, "how many leases each of them has")
	processes := fs.Int("processes", 0, "how many processes have the sessions")
	ttl := fs.Duration("ttl", 0, "TTL of the sessions")
	out := fs.String("out", filepath.Join("test", "events", "results"), "folder for the result")
	if err := fs.Parse(args); err != nil {
		return err
	}
	e, ok := events[*name]
	if !ok {
		return fmt.Errorf("unknown event %q; -event is one of %s", *name, strings.Join(slices.Sorted(maps.Keys(events)), ", "))
	}
	s := e.usual
	s.Sessions, s.Leases, s.Processes = or(*sessions, s.Sessions), or(*leases, s.Leases), or(*processes, s.Processes)
	s.TTL = or(*ttl, s.TTL)
	r, err := e.run(ctx, s)
	if err != nil {
		return err
	}
	r.Event, r.Size = *name, s
	fmt.Print(r)
	return errors.Join(os.MkdirAll(*out, 0o755), r.write(*out))
}

// or is a if it is set.
func or[T int | time.Duration](a, b T) T {
	if a != 0 {
		return a
	}
	return b
}
