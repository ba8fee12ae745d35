// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"fmt"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Guarantees says what a client on its store promises: as fields for programs,
// as words for people (String).
type Guarantees struct {
	Engine string
	// Fencing is the strength of the tokens. Strict: effects guarded by a token
	// are exclusive, whatever clocks, networks and processes do within the
	// documented bounds of the store.
	Fencing Fencing
	// SurvivesCrash is set if an acknowledged grant survives a crash or a
	// failover of the engine: because the engine is durable, or because after
	// a loss of memory nothing new is granted until every earlier session must
	// have ended (grace).
	SurvivesCrash bool
	// Grace is set if that is by grace: after a loss nothing new is granted for
	// up to the longest TTL.
	Grace bool
	// Fair is set if turns between processes are first come, first served.
	Fair bool
	// Push is set if a hand-over between processes is pushed, not polled.
	Push bool
	// TTL is how long the locks of a dead process stay taken; Told is how long
	// before the store may give a lock away its holder is told, provided its
	// process runs, clocks drift less than Drift of the TTL and are not stepped.
	TTL   time.Duration
	Told  time.Duration
	Drift float64
	// Assumes says, where it is not plain, under which conditions tokens are as
	// strong as Fencing says, and leases survive a crash as SurvivesCrash says.
	Assumes string
	// Advice says what to change to use the store for correctness.
	Advice string
}

// Guarantees returns what this store with these options promises.
func (c *Client) Guarantees() Guarantees {
	return Guarantees{
		Engine:        c.caps.Engine,
		Fencing:       c.caps.Fencing,
		SurvivesCrash: c.caps.Durability == driver.Durable || c.caps.Grace,
		Grace:         c.caps.Grace,
		Fair:          c.caps.Queue,
		Push:          c.caps.Push,
		TTL:           c.opts.TTL,
		Told:          c.opts.Margin,
		Drift:         c.opts.Drift,
		Assumes:       c.caps.Assumes,
		Advice:        c.caps.Advice,
	}
}

// String says it in words.
func (g Guarantees) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	switch g.Fencing {
	case driver.Strict:
		line("Fenced effects are exclusive: tokens are unique and rise with every acquisition.")
	case driver.BestEffort:
		line("Tokens rise unless the engine loses its memory; see the store's documentation.")
	default:
		line("There are no tokens worth checking: use it only where doing work twice merely costs.")
	}
	if g.Assumes != "" {
		line("%s", g.Assumes)
	}
	line("Two holders do not overlap in time while clocks drift less than %.3g %% and are not stepped.", g.Drift*100)
	line("A holder whose process runs is told %v before the store may give its lock away.", g.Told)
	line("The locks of a process that dies are free after %v.", g.TTL)
	line("A lease that an operator breaks is free at once; its holder is told at the next renewal.")
	switch {
	case g.Grace:
		line("After a crash or failover of the engine holders keep their locks, and nothing new is granted until every earlier one must have ended.")
	case g.SurvivesCrash:
		line("A grant survives a crash or failover of the engine.")
	default:
		line("A crash or failover of the engine may forget a grant; a second holder is then possible in time, and only the token tells them apart.")
	}
	if g.Fair {
		line("Turns between processes are first come, first served.")
	} else {
		line("Turns between processes are in no order.")
	}
	return b.String()
}

// unmet says why the need cannot be met, and what to change.
func (g Guarantees) unmet(need Need) error {
	if need != Correctness {
		return nil
	}
	var why []string
	if g.Fencing != driver.Strict {
		why = append(why, fmt.Sprintf("its fencing is %s, not strict", g.Fencing))
	}
	if !g.SurvivesCrash {
		why = append(why, "it may forget a grant in a crash or failover")
	}
	if len(why) == 0 {
		return nil
	}
	advice := g.Advice
	if advice == "" {
		advice = "use another store, or Require: Efficiency and guard every effect with the token"
	}
	return &Error{Op: "new", Engine: g.Engine, Err: fmt.Errorf("%w: Require is Correctness, but %s",
		ErrUnsupported, strings.Join(why, " and ")), Hint: advice}
}
