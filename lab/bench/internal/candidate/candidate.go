// SPDX-License-Identifier: Apache-2.0

// Package candidate has everything that is compared, one file each: what the
// server can do without a lock library, the libraries of others, and ours.
//
// To add one, write a file with a Candidate and put it into the list in all.go.
package candidate

import (
	"context"
	"fmt"
	"slices"
)

// Candidate is one way to take turns.
type Candidate struct {
	// Name is what reports call it, such as "fencelock-rueidis".
	Name string
	// Server is what it runs on: "redis", "cluster" or "quorum" for several of those, "etcd",
	// "zk", "postgres", "mariadb", "memcached", or nothing.
	Server string
	// Bare is the candidate that does what the server does without a library,
	// through the same client; empty if it is one itself.
	Bare string
	// Settings says in words what was set, and what is the library's default.
	Settings string
	// Plain are the commands it sends outside of scripts, in lower case, one for each request.
	// The counts of the server need them: see target.Stats.Sent.
	Plain []string
	// Parts are the other commands of such a request, which has a command of Plain in it.
	Parts []string
	// Overcounted are those of Plain that its scripts call, too: the server counts them twice
	// then, to its disadvantage.
	Overcounted []string
	// Uncounted are commands it sends and its scripts call too: the server cannot
	// distinguish them, so they are left out, in its favor.
	Uncounted []string
	// Waits reports whether Do waits for a name that another holds. Without it the
	// candidate is only good for uncontended names.
	Waits bool
	// Open connects n lockers that know nothing of each other, as n processes
	// do. They share connections only where the library lets processes' worth of
	// owners share a client.
	Open func(ctx context.Context, at Place, n int) ([]Locker, error)
	// Command starts a worker of a candidate that is not Go, which speaks what
	// package worker speaks. It is nil for all others.
	Command func() ([]string, error)
}

// Place is where a candidate works.
type Place struct {
	// Addr is the address of the server.
	Addr string
	// Process counts the processes of one run from 0, Processes is how many.
	Process, Processes int
}

// Locker is a connected candidate. It is safe for concurrent use.
type Locker interface {
	// Do takes the lock, runs section and gives the lock back. It returns when
	// the library says that it was given back. section may be nil.
	Do(ctx context.Context, name string, section func()) error
	// Hold takes the lock and keeps it, as long as the process lives.
	Hold(ctx context.Context, name string) error
	// Close disconnects. Locks held are left to end by themselves.
	Close()
}

// Named returns the candidate of that name.
func Named(name string) (*Candidate, error) {
	var known []string
	for _, c := range All {
		if c.Name == name {
			return c, nil
		}
		known = append(known, c.Name)
	}
	slices.Sort(known)
	return nil, fmt.Errorf("no candidate is called %q; there are %v", name, known)
}

// One opens a single locker.
func (c *Candidate) One(ctx context.Context, addr string) (Locker, error) {
	lockers, err := c.Open(ctx, Place{Addr: addr, Processes: 1}, 1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return lockers[0], nil
}
