// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"time"

	"github.com/fencelock/fencelock/internal/enum"
)

// State is where a claim stands.
type State uint8

const (
	// Absent: the store does not know the claim, or has tombstoned it. From Await
	// it means that another Attempt is worth making.
	Absent State = iota
	// Busy: not granted and not queued.
	Busy
	// Queued: in the queue.
	Queued
	// Granted: the claim holds the lock.
	Granted
)

// String returns the state in lower case.
func (s State) String() string {
	return enum.String("state", s, "absent", "busy", "queued", "granted")
}

// Outcome is the answer to Attempt and Await.
type Outcome struct {
	// State is where the claim stands.
	State State
	// Token is set if granted: a positive multiple of TokenStep. If a claim with
	// a Floor was not granted, an Attempt returns here a token at least as high as
	// every token of the name so far (clause T8).
	Token Token
	// Remaining is how much is left of a MaxHold, by the store's clock when it
	// answered an Attempt. It is set only for a granted claim with a MaxHold.
	// Await leaves it zero, because the time that the push traveled is
	// unknown: the core then makes another Attempt.
	Remaining time.Duration
	// Position is the number of claims in the queue before a queued one.
	Position int
	// Holders are the holders in the way, where the store knows them: at least
	// one unless Grace is set, at most MaxHoldersReported.
	Holders []Holder
	// PollAfter is when another Attempt is worth making even if no push comes:
	// for the first in the queue when the holder must have ended, for others later.
	// 0 leaves it to the core.
	PollAfter time.Duration
	// Grace is set if nothing new is granted yet because the store was reset;
	// PollAfter is the rest of the grace.
	Grace bool
}

// MaxHoldersReported bounds Outcome.Holders.
const MaxHoldersReported = 4

// Removed is what a withdrawal found.
type Removed uint8

const (
	// WasAbsent: there was no such claim. A withdrawal that was repeated, by
	// the core or by a client library that sends again, ends so.
	WasAbsent Removed = iota
	// WasQueued: the claim was queued.
	WasQueued
	// WasGranted: the claim held the lock.
	WasGranted
	// WasBroken: an operator had broken the claim. Every withdrawal of it is
	// answered so: a client library may have sent the first one twice.
	WasBroken
)

// String returns what was found, in lower case.
func (r Removed) String() string {
	return enum.String("removed", r, "absent", "queued", "granted", "broken")
}

// Renewal is what a store returns of a session when it opens or is kept alive.
type Renewal struct {
	// TTL is how long the session lives from the moment the store handled the
	// call, which is never before the call was sent. A store may answer with
	// another TTL than the one asked for.
	TTL time.Duration
	// Clock is what the store's clock showed when it handled the call, zero if the
	// store does not report it. It is good for one thing: to see how far the clocks of
	// several stores are apart. No duration is ever counted with it.
	Clock time.Time
	// Broken lists the claims of this session whose grant was broken by an
	// operator. They are listed until withdrawn.
	Broken []uint64
}

// PollAfter is an Outcome.PollAfter that spreads the polls of queued claims: the further back, the
// later. Soonest is when the first of the holders ends.
func PollAfter(soonest time.Duration, position int) time.Duration {
	return soonest + time.Duration(min(position, 8))*250*time.Millisecond
}
