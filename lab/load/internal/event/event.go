// SPDX-License-Identifier: Apache-2.0

// Package event does to a fleet of clients what happens to fleets: the server fails over, all
// clients restart at once, a client with a million leases dies, the holder of a lock with thousands of
// waiters dies, the server is slow for a minute, the clocks of all clients step.
//
// The clients are in several processes. The sessions of a process share a store and its connections, as the goroutines
// of a program do; each of them has its own keep-alive, so the server sees a process in each of them.
// Each client counts its requests in bins of 100 ms, on the clock of the machine.
package event

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// MemberCommand is the first argument of a process of the fleet, which calls Member.
const MemberCommand = "member"

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

// Run does the event that is the first argument, and keeps its result in a folder, or in that of the flag -out.
func Run(ctx context.Context, args []string, dir string) error {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	fs := flag.NewFlagSet("event", flag.ContinueOnError)
	sessions := fs.Int("sessions", 0, "how many sessions; by default as many as in the documents")
	leases := fs.Int("leases", 0, "how many leases each of them has")
	processes := fs.Int("processes", 0, "how many processes have the sessions")
	ttl := fs.Duration("ttl", 0, "TTL of the sessions")
	out := fs.String("out", dir, "folder for the result")
	e, ok := events[name]
	if !ok {
		return fmt.Errorf("unknown event %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(events)), ", "))
	}
	if err := fs.Parse(args); err != nil {
		return err
	}
	s := e.usual
	s.Sessions, s.Leases, s.Processes = or(*sessions, s.Sessions), or(*leases, s.Leases), or(*processes, s.Processes)
	s.TTL = or(*ttl, s.TTL)
	r, err := e.run(ctx, s)
	if err != nil {
		return err
	}
	r.Event, r.Size = name, s
	fmt.Print(r)
	return r.write(*out)
}

// or is a if it is set.
func or[T int | time.Duration](a, b T) T {
	if a != 0 {
		return a
	}
	return b
}
