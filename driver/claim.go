// SPDX-License-Identifier: Apache-2.0

package driver

import "time"

// Mode is what else may be granted beside a claim.
type Mode uint8

const (
	// Exclusive tolerates nothing beside it but claims of the same Reentry.
	Exclusive Mode = iota
	// Shared tolerates other shared claims, as far as its Limit allows.
	Shared
)

// String returns "exclusive" or "shared".
func (m Mode) String() string {
	if m == Shared {
		return "shared"
	}
	return "exclusive"
}

// Terms is what a claim asks for. It is a value shared by many claims: a
// driver must not modify it, and it is guaranteed that no other code does.
type Terms struct {
	// Mode is Exclusive or Shared.
	Mode Mode
	// Weight is how much of the limit a shared claim uses. It is guaranteed to
	// be at least 1.
	Weight int64
	// Limit is the weight that may be granted together, this claim's included,
	// as far as this claim is concerned. 0 is no limit; otherwise it is
	// guaranteed to be at least Weight. A limit stored for the name with
	// SetLimit replaces it, and a claim heavier than that takes all of it.
	Limit int64
	// Reentry, if not empty, lets an exclusive claim join exclusive grants of
	// the same Reentry, whatever their session, with the same token.
	Reentry string
	// MinHold is how long after its grant the lock stays taken even if the
	// claim is withdrawn or its session ends.
	MinHold time.Duration
	// MaxHold, if not 0, is how long after its grant the grant ends, whatever
	// happens.
	MaxHold time.Duration
	// Linger, if not 0, is how long the holder may keep the lock without using it: it
	// gives the lock back when OpenRequest.Contended is called. It is guaranteed to be 0
	// where Caps.Linger is not set, and for shared claims. A store only shows it, in
	// Holder.Linger.
	Linger time.Duration
	// Record names the claimant for people. It is guaranteed not to be nil.
	Record *Record
}

// Plain reports whether the terms are those of an ordinary mutex: exclusive, and nothing else that
// decides about a grant.
func (t *Terms) Plain() bool {
	return t.Mode == Exclusive && t.Weight == 1 && t.Limit == 0 && t.Reentry == "" && t.MinHold == 0 && t.MaxHold == 0
}

// Claim is one request for one lock. Its identity is the session it is used on
// and Seq; it is guaranteed that a Seq is never used for a second request and
// that Name and Terms stay the same for one Seq, but for a downgrade: an
// exclusive claim may be attempted again with Shared terms (clause O6).
type Claim struct {
	// Seq numbers the claims of a session.
	Seq uint64
	// Name is the name of the lock.
	Name string
	// Terms is what the claim asks for.
	Terms *Terms
	// Queue asks the store to queue the claim if it cannot be granted.
	Queue bool
	// Watch asks a store with Caps.Contended to call OpenRequest.Contended while the claim is
	// granted and another one is queued for the lock. A claim that was granted without
	// Watch may be attempted again with it, and without Queue: its grant stays as it
	// is, and is watched from then on. Watch is never taken back.
	Watch bool
	// Floor, if not 0, asks a store with Caps.Floor to vote: to grant with a
	// token not below it, and to let no later token of the name fall below it
	// whatever the answer is (clauses T6 and T8). It is guaranteed to be a
	// positive multiple of TokenStep, and 0 where Caps.Floor is not set. With it
	// several stores can agree on one token; package quorum does.
	Floor Token
	// Lift asks, with a Floor, for a new token if the claim is granted already
	// with one below the Floor (clause T7). Without it a Floor changes no token.
	Lift bool
}

// Held is a granted claim as the core remembers it, for Reclaim.
type Held struct {
	// Claim is the claim as it was attempted, and Token the token of its grant.
	Claim Claim
	Token Token
}

// Withdrawal asks a store to remove one claim.
type Withdrawal struct {
	// Seq and Name are those of the claim.
	Seq  uint64
	Name string
	// KeepFor leaves the lock taken for that long although its claim is gone:
	// no claim holds it, and none is granted it. 0 frees it (but see Terms.MinHold).
	KeepFor time.Duration
	// Tombstone is set when an attempt or a reclaim of this claim may still be on its
	// way. The store must then refuse it whenever it arrives (clause X3).
	// Without it the store owes nothing to a later attempt.
	Tombstone bool
}

// Record is what a holder wants people to know. Stores keep it with the claim
// and give it back unchanged; the core keeps it under MaxRecordBytes.
type Record struct {
	// Owner is who: user@host:pid by default.
	Owner string `json:"owner,omitempty"`
	// Reason is why, in the caller's words.
	Reason string `json:"reason,omitempty"`
	// Trace is the W3C traceparent of the acquisition, so that a waiter's span
	// can link to the holder that blocks it.
	Trace string `json:"trace,omitempty"`
	// Labels are free pairs for people and tools.
	Labels map[string]string `json:"labels,omitempty"`
}

// MaxRecordBytes bounds the JSON form of a Record.
const MaxRecordBytes = 1024

// MaxNameBytes bounds the length of a lock name.
const MaxNameBytes = 512
