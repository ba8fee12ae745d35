// SPDX-License-Identifier: Apache-2.0

package driver

import "time"

// Holder is one grant as the store sees it. All times are durations by the
// store's clock at the moment it answered.
type Holder struct {
	// Claim is the claim that was granted, and Token the token it was granted with.
	Claim ClaimID
	Token Token
	// Mode, Weight and Reentry are those of the claim's Terms.
	Mode    Mode
	Weight  int64
	Reentry string
	// Linger is that of the claim's Terms: if not 0, the holder may be idle, and gives
	// the lock back when a claim is queued behind it.
	Linger time.Duration
	// Record names the holder for people: Record.Owner and Record.Reason.
	Record Record
	// Age is the time since the grant, 0 if the store does not know it: the formats of other libraries do not have it.
	Age time.Duration
	// EndsIn is when the grant ends if its session is not kept alive again.
	EndsIn time.Duration
	// Kept is set if no claim holds the lock any more and it is only kept taken
	// (Terms.MinHold, Withdrawal.KeepFor).
	Kept bool
}

// Waiter is one queued claim.
type Waiter struct {
	// Claim is the claim that waits.
	Claim ClaimID
	// Mode and Weight are those of the claim's Terms.
	Mode   Mode
	Weight int64
	// Record names the waiting process for people.
	Record Record
	// Age is the time since it was queued.
	Age time.Duration
}

// Status is a lock as the store sees it. A free lock that no claim waits for has
// neither holders nor waiters.
type Status struct {
	// Name is the name of the lock.
	Name string
	// Holders are the grants of the lock, none if it is free. A lock that is held shared may have more than
	// MaxHoldersInspected; then a store shows so many of them, in the order of their tokens, and MoreHolders counts the rest.
	Holders     []Holder
	MoreHolders int
	// Waiters are the first MaxWaitersReported in the queue; Waiting counts all.
	Waiters []Waiter
	Waiting int
	// Limit is the limit stored with SetLimit, 0 if none.
	Limit int64
	// Grace is how long nothing new will be granted, because the store
	// was reset.
	Grace time.Duration
}

// MaxWaitersReported bounds Status.Waiters. MaxHoldersInspected is how many holders a Status has at least, if there are so many:
// a store may leave out others, which would take too long to read.
const (
	MaxWaitersReported  = 100
	MaxHoldersInspected = 1000
)

// ListQuery selects locks that are held, kept or waited for.
type ListQuery struct {
	// Prefix selects names that start with it; empty selects all.
	Prefix string
	// Cursor is the Next of the page before; empty starts.
	Cursor string
	// Max is how many locks to return at most. It is guaranteed to be at
	// least 1. A store may return fewer, also none, and still have a Next.
	Max int
}

// Page is a part of a listing. A lock that was held during the whole listing
// is guaranteed to be in exactly one page; one that came or went in between may
// be missing.
type Page struct {
	Locks []Status
	// Next is the cursor of the next page; empty at the end.
	Next string
}
