// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"fmt"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Guarantees is what a client on its store promises: as fields for programs,
// as words for people (String).
type Guarantees struct {
	// Server is the kind of server that keeps the locks, such as "redis".
	Server string
	// Fencing is the strength of the tokens. Strict: effects guarded by a token
	// are exclusive, whatever clocks, networks and processes do within the
	// documented bounds of the store.
	Fencing driver.Fencing
	// SurvivesCrash is set if an acknowledged grant survives a crash or a
	// failover of the server: because the server is durable, or because after
	// a data loss nothing new is granted until every earlier session must
	// have ended (grace). By grace only leases that are held survive: what is kept
	// taken after an unlock, by MinHold or as the mark of Once, needs a durable
	// server.
	SurvivesCrash bool
	// Grace is set if that is by grace: after a loss nothing new is granted for
	// up to the longest TTL.
	Grace bool
	// Fair is set if waiting processes are served first come, first served.
	Fair bool
	// Push is set if a waiting process is notified of a handoff by the store. On MySQL and
	// MariaDB it waits for a named lock of the claim before its own, or polls; behind a
	// pooler the store polls the database.
	Push bool
	// Contended is how soon Lease.Contended notifies a holder that another process waits. A
	// goroutine of the same client closes the channel at once on every store.
	Contended driver.Notice
	// Linger is set if the option Linger works.
	Linger bool
	// Hold is set if the store keeps a lock for a fixed time: MinHold, MaxHold and Once
	// need that. ZooKeeper and memcached have not got it.
	Hold bool
	// TTL is how long the locks of a dead process stay taken after its last renewal. On
	// ZooKeeper, etcd and memcached they stay taken some seconds longer. Notified is how long
	// before the store may give a lock away its holder is notified, provided its
	// process runs, clocks drift less than Drift of the TTL and are not stepped. A
	// lease with MaxHold has at most a tenth of its length.
	TTL      time.Duration
	Notified time.Duration
	Drift    float64
	// Assumes has, where they are not obvious, the conditions under which tokens are as
	// strong as Fencing and leases survive a crash as SurvivesCrash promise.
	Assumes string
	// Advice is what to change to use the store for correctness.
	Advice string
}

// Guarantees returns what this store with these options promises.
func (c *Client) Guarantees() Guarantees {
	return Guarantees{
		Server:        c.caps.Engine,
		Fencing:       c.caps.Fencing,
		SurvivesCrash: c.caps.Durability == driver.Durable || c.caps.Grace,
		Grace:         c.caps.Grace,
		Fair:          c.caps.Queue,
		Push:          c.caps.Push,
		Contended:     c.caps.Contended,
		Linger:        c.caps.Linger,
		Hold:          c.caps.Hold,
		TTL:           c.opts.TTL,
		Notified:      c.opts.Margin,
		Drift:         c.opts.Drift,
		Assumes:       c.caps.Assumes,
		Advice:        c.caps.Advice,
	}
}

// String returns the guarantees in words.
func (g Guarantees) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	switch g.Fencing {
	case driver.Strict:
		line("Fenced effects are exclusive: tokens are unique and rise with every acquisition.")
	case driver.BestEffort:
		line("Tokens rise unless the server loses its data; see the store's documentation.")
	default:
		line("There are no tokens to check: use this store only where doing work twice is merely wasteful.")
	}
	if g.Assumes != "" {
		line("%s", g.Assumes)
	}
	line("Two holders do not overlap in time while clocks drift less than %.3g %% and are not stepped.", g.Drift*100)
	line("A holder whose process runs is notified %v before the store may give its lock away (with MaxHold: a tenth of its length before, if that is less).", g.Notified)
	line("The locks of a process that dies are free %v after its last renewal, or later if the server ends sessions late (see the store's documentation).", g.TTL)
	line("A lease that an operator breaks is free at once; its holder is notified at the next renewal.")
	switch {
	case g.Grace:
		line("After a crash or failover of the server holders keep their locks, and no new lock is granted until every earlier lease must have ended.")
	case g.SurvivesCrash && g.Assumes != "":
		line("A grant survives a crash of the server, and a failover as far as the conditions above hold.")
	case g.SurvivesCrash:
		line("A grant survives a crash or failover of the server.")
	default:
		line("A grant may be lost in a crash or failover of the server; a second holder at the same time is then possible, and only the token distinguishes them.")
	}
	if g.Fair {
		line("Processes acquire a lock in the order in which they asked for it.")
	} else {
		line("Processes acquire a lock in no particular order.")
	}
	switch g.Contended {
	case driver.NoticeAtOnce:
		line("A holder that asks for it is notified at once when another process waits.")
	case driver.NoticeAtRenewal:
		line("A holder that asks for it is notified at the next renewal when another process waits.")
	default:
		line("A holder is not notified when another process waits.")
	}
	return b.String()
}

// unmet returns why the need cannot be met, and what to change.
func (g Guarantees) unmet(need Need) error {
	if need != Correctness {
		return nil
	}
	var why []string
	if g.Fencing != driver.Strict {
		why = append(why, fmt.Sprintf("its fencing is %s, not strict", g.Fencing))
	}
	if !g.SurvivesCrash {
		why = append(why, "it may lose a grant in a crash or failover")
	}
	if len(why) == 0 {
		return nil
	}
	advice := g.Advice
	if advice == "" {
		advice = "use another store, or Require: Efficiency and guard every effect with the token"
	}
	return &Error{Op: "new", Server: g.Server, Err: fmt.Errorf("%w: Require is Correctness, but %s",
		ErrUnsupported, strings.Join(why, " and ")), Hint: advice}
}
