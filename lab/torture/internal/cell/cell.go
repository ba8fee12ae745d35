// SPDX-License-Identifier: Apache-2.0

// Package cell runs one cell of the matrix: a deployment, clients as separate
// processes, a plan of faults, and the checkers over the recorded history.
//
//	servers ◀─ proxies ◀─ clients ─▶ resource        processes
//	   ▲          ▲          ▲  │        │
//	   └──────── faults ─────┘  └────────┴──▶ history ─▶ checkers ─▶ verdict
//
// A cell ends when every client was granted the lock again after the last fault,
// and once more after what may follow from it was over, or when that took longer
// than is allowed. A machine that stalled in
// between says nothing about time: such a cell was not run, unless a fenced
// effect went wrong, which no stall excuses.
package cell

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock/lab/internal/deployment"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/torture/internal/check"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
	"github.com/fencelock/fencelock/lab/torture/internal/resource"
)

// Cell is what to run.
type Cell struct {
	Deployment deployment.Deployment
	Fault      fault.Kind
	Seed       uint64
	// Plan is used instead of the one that Fault makes from Seed, if it is set.
	Plan fault.Plan
	// Lock is used instead of the deployment's, if it is set; Guard is the resource's.
	Lock  string
	Guard resource.Guard
	// Clients, Locks, TTL and Long have defaults. One section in Long is longer than
	// the TTL. A client uses any of the locks, one at a time.
	Clients, Locks, Long int
	TTL                  time.Duration
	// Linger makes locks linger for half a TTL, where the store lets them. Each client has a
	// lock that it uses mostly then, and gives way when another one waits.
	Linger bool
}

// Defaults: few clients and a short TTL, because many cells share one machine.
const (
	DefaultClients = 4
	DefaultTTL     = time.Second
	DefaultLong    = 20
)

func (c Cell) withDefaults() Cell {
	if c.Clients == 0 {
		c.Clients = DefaultClients
	}
	if c.Linger {
		c.Locks = c.Clients
	}
	if c.Locks == 0 {
		c.Locks = 1
	}
	if c.Long == 0 {
		c.Long = DefaultLong
	}
	if c.TTL == 0 {
		c.TTL = max(c.Deployment.TTL, DefaultTTL)
	}
	if c.Lock == "" {
		c.Lock = c.Deployment.Lock
	}
	if c.Guard == "" {
		c.Guard = resource.Sound
	}
	return c
}

// Applies reports whether the deployment has what the plan breaks. What can only be
// found out on the machine, such as a library that is missing, does not count.
func (c Cell) Applies() bool {
	_, why := c.withDefaults().plan()
	return why == ""
}

// plan is the plan to run, or why the cell cannot be run.
func (c Cell) plan() (p fault.Plan, why string) {
	shape := c.Deployment.Shape
	shape.Clients, shape.TTL = c.Clients, c.TTL
	p = c.Plan
	if p == nil {
		if c.Fault.Needs != nil {
			why = c.Fault.Needs(shape)
		}
		if why != "" {
			return nil, why
		}
		p = c.Fault.Plan(c.Seed, shape)
		if c.Linger {
			p.Idle(c.Seed)
		}
	}
	for _, s := range p {
		if why := c.Deployment.Unfit(s); why != "" {
			return nil, why
		}
	}
	return p, ""
}

// Limits are the times allowed in this cell: what the deployment needs, and much
// more for a machine that is busy.
func (c Cell) Limits() check.Limits {
	stuck := c.TTL*time.Duration(1+c.Deployment.Quiet) + 4*time.Second
	return check.Limits{
		Stuck:    stuck,
		Starve:   stuck + 2*c.TTL*time.Duration(c.Clients), // a section lasts two TTLs at most, and a bit
		Wake:     c.TTL*2/3 + time.Second,
		Notified: 700 * time.Millisecond,
		Late:     400 * time.Millisecond,
		Overtake: 700 * time.Millisecond,
	}
}

// Status is the verdict on a cell.
type Status string

// The verdicts.
const (
	// Held: whatever must hold did, and what may fail did not.
	Held Status = "held"
	// Allowed: something failed that may fail there; how often is counted.
	Allowed Status = "allowed to fail"
	// Failed: something failed that must hold.
	Failed Status = "FAILED"
	// NotRun: the cell could not be run or says nothing.
	NotRun Status = "not run"
	// NotApplicable: the deployment has nothing that this fault could break.
	NotApplicable Status = "n/a"
)

// Result is what came of a cell.
type Result struct {
	Deployment, Fault string
	Seed              uint64
	Plan              string
	// Lock is set if it is not the deployment's, Long and Locks if they are not the
	// default.
	Lock   string
	Long   int
	Locks  int
	Linger bool
	Status Status
	// Reason is in words.
	Reason string
	// Must is what must hold there. Violations are in the order of time.
	Must       []check.Property
	Counts     map[check.Property]int
	Violations []check.Violation
	// Pictures are pages of Porcupine, if it could not explain the history, with
	// timed and with untimed leases. Undecided are those for which it had no time.
	Pictures  map[string][]byte
	Undecided []string
	Grants    int
	Refused   int
	Took      time.Duration
	Events    []history.Event
}

// Column is the deployment, and the lock if that is not the deployment's.
func (r Result) Column() string {
	if r.Lock == "" {
		return r.Deployment
	}
	return r.Lock[strings.Index(r.Lock, ":")+1:] + "-on-" + r.Deployment
}

// ID names the cell and its seed.
func (r Result) ID() string { return fmt.Sprintf("%s-%s-%d", r.Column(), r.Fault, r.Seed) }

// Picture is the name of the file for a page of Porcupine.
func (r Result) Picture(leases string) string { return r.ID() + "-porcupine-" + leases + ".html" }

// Gravest are the violations of what must hold, and then the others, each in the
// order of time.
func (r Result) Gravest() []check.Violation {
	vs := slices.Clone(r.Violations)
	rank := func(v check.Violation) int {
		if slices.Contains(r.Must, v.Property) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(vs, func(a, b check.Violation) int { return rank(a) - rank(b) })
	return vs
}

// Must returns what must hold in a cell.
func Must(e deployment.Deployment, k fault.Kind) []check.Property {
	must := []check.Property{check.F, check.L, check.W}
	endsEarly := e.EndsEarly != nil && e.EndsEarly(k)
	if e.Keep(k) && !k.Ages && !e.Split(k) && !endsEarly {
		must = append(must, check.T, check.N)
	}
	if k.Name == "calm" && e.Fair {
		must = append(must, check.O)
	}
	return must
}
