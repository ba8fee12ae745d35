// SPDX-License-Identifier: Apache-2.0

package driver

import "time"

// State is where a claim stands.
type State uint8

const (
	// Absent: the store does not know the claim, or has buried it. From Await
	// it means that another Attempt is worth making.
	Absent State = iota
	// Busy: not granted and not in line.
	Busy
	// Queued: in line.
	Queued
	// Granted: the claim holds the lock.
	Granted
)

// String returns the state in lower case.
func (s State) String() string {
	return [...]string{"absent", "busy", "queued", "granted"}[s]
}

// Outcome is the answer to Attempt and Await.
type Outcome struct {
	State State
	// Token is set if granted: a positive multiple of TokenStep. If a claim with
	// a Floor was not granted, an Attempt tells here a token at least as high as
	// every token of the name so far (clause T8).
	Token Token
	// Remaining is how much is left of a MaxHold, by the store's clock when it
	// answered an Attempt. It is set only for a granted claim with a MaxHold.
	// Await leaves it zero, because nobody knows how long the push travelled:
	// the core then asks by another Attempt.
	Remaining time.Duration
	// Place is the number of claims in line before a queued one.
	Place int
	// Holders are the holders in the way, where the store can tell: at least
	// one unless Grace is set, at most MaxHoldersTold.
	Holders []Holder
	// LookAfter is when another Attempt is worth making even if no push comes:
	// for the first in line when the holder must have ended, for others later.
	// 0 leaves it to the core.
	LookAfter time.Duration
	// Grace says that nothing new is granted yet because the store's memory is
	// new; LookAfter is the rest of the grace.
	Grace bool
}

// MaxHoldersTold bounds Outcome.Holders.
const MaxHoldersTold = 4

// Removed says what a withdrawal found.
type Removed uint8

const (
	// WasAbsent: there was no such claim. A withdrawal that was repeated, by
	// the core or by a client library that sends again, ends so.
	WasAbsent Removed = iota
	// WasQueued: the claim was in line.
	WasQueued
	// WasGranted: the claim held the lock.
	WasGranted
	// WasBroken: an operator had broken the claim, and this is the first
	// withdrawal since.
	WasBroken
)

// String returns what was found, in lower case.
func (r Removed) String() string { return [...]string{"absent", "queued", "granted", "broken"}[r] }

// Life is what a store says of a session when it opens or is kept alive.
type Life struct {
	// TTL is how long the session lives from the moment the store handled the
	// call, which is never before the call was sent. A store may answer with
	// another TTL than the one asked for.
	TTL time.Duration
	// Clock is what the store's clock showed when it handled the call, zero if the
	// store does not tell. It is good for one thing: to see how far the clocks of
	// several stores are apart. No duration is ever counted with it.
	Clock time.Time
	// Broken lists the claims of this session whose grant was broken by an
	// operator. They are listed until withdrawn.
	Broken []uint64
}
