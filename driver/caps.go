// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"time"

	"github.com/fencelock/fencelock/internal/enum"
)

// Fencing is how far tokens can be trusted.
type Fencing uint8

const (
	// NoFencing: there are no tokens worth checking.
	NoFencing Fencing = iota
	// BestEffort: tokens rise unless the server loses data in a way that the store's
	// documentation names.
	BestEffort
	// Strict: tokens are unique and rise, whatever happens within the
	// documented bounds of clocks and durability.
	Strict
)

// String returns the strength in lower case.
func (f Fencing) String() string { return enum.String("fencing", f, "none", "best effort", "strict") }

// Durability is what the server still has after a crash or a failover.
type Durability uint8

const (
	// Volatile: a restart or a failover may lose grants.
	Volatile Durability = iota
	// Durable: an acknowledged grant survives what the server is built to
	// survive (a consensus log, a synchronous write-ahead log).
	Durable
)

// String returns the durability in lower case.
func (d Durability) String() string { return enum.String("durability", d, "volatile", "durable") }

// Notice is how soon the holder of a lock is notified that another claim waits for it.
type Notice uint8

const (
	// NoNotice: never.
	NoNotice Notice = iota
	// NoticeAtRenewal: with the next keep-alive of the holder's session.
	NoticeAtRenewal
	// NoticeAtOnce: soon after the claim was queued.
	NoticeAtOnce
)

// String returns when the holder is notified, in lower case.
func (n Notice) String() string {
	return enum.String("notice", n, "never", "at the next renewal", "at once")
}

// Caps are constant facts about a store. They are data and not optional
// interfaces because combinators and fault injectors wrap stores, and a
// wrapper hides optional interfaces but can edit data.
type Caps struct {
	// Engine is the server's name for people: "memory", "redis", "etcd".
	Engine string
	// Fencing is the strength of the tokens.
	Fencing Fencing
	// Durability is what survives a crash of the server.
	Durability Durability
	// Grace is set when a new incarnation grants nothing until every earlier
	// session must have ended, so that holders can reclaim.
	Grace bool
	// Queue is set when the store queues claims, first come first served. Without
	// it Attempt answers Busy and the core polls; a store that is made of others may
	// answer Queued for a claim in the queue of one of them.
	Queue bool
	// Push is set when Await returns by itself soon after a grant. Without it
	// Await returns at once and the core polls.
	Push bool
	// Contended is how soon the store calls OpenRequest.Contended about a granted claim with
	// Watch (clauses W6 to W9).
	Contended Notice
	// Linger is set when Terms.Linger comes back in Holder.Linger and Contended is at once.
	// Claims may linger then.
	Linger bool
	// Shared is set when shared and weighted claims and stored limits work.
	Shared bool
	// NoLimits is set, with Shared, when only shared claims without a Limit work: readers, and
	// no semaphores.
	NoLimits bool
	// Reentry is set when claims can join grants of the same Terms.Reentry.
	Reentry bool
	// Hold is set when Terms.MinHold, Terms.MaxHold and Withdrawal.KeepFor
	// work.
	Hold bool
	// Listing is set when List works.
	Listing bool
	// Floor is set when Claim.Floor and Claim.Lift work, so that the store can be
	// one of the nodes of a quorum.
	Floor bool
	// MinTTL and MaxTTL bound the TTL of a session; 0 is no bound.
	MinTTL, MaxTTL time.Duration
	// Assumes is, in a sentence or two, under which conditions Fencing, Durability
	// and Grace are true, where they are not plain: which clocks must agree, and how
	// well. Guarantees shows it.
	Assumes string
	// Advice is what a user must change to use the store for correctness; it
	// is printed when Require: Correctness is refused.
	Advice string
}
