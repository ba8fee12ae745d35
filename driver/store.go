// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"time"
)

// Store is what a store author implements. All methods must be safe for
// concurrent use, and every call must return soon after its context ends,
// whatever the server does. See the package comment for the contract.
type Store interface {
	// Caps returns constant facts. It must not do I/O.
	Caps() Caps

	// Shard returns the shard that keeps name: the same for the same name, in
	// every process, for as long as the namespace exists. It must not do I/O.
	Shard(name string) string

	// Open starts a session on a shard, or resumes the one with that id: it is
	// idempotent per id. Resuming is how a session comes back after
	// ErrReset. An Open that arrives after the session has ended starts a
	// session with that id and without claims.
	Open(ctx context.Context, req OpenRequest) (Session, Renewal, error)

	// Inspect returns the holders of name and its waiters.
	Inspect(ctx context.Context, name string) (Status, error)

	// List returns many locks, page by page.
	List(ctx context.Context, q ListQuery) (Page, error)

	// Break ends the grant with that token (compared by Base), whichever claim
	// has it, and returns a token above every token given out for the name so far
	// and below every later one, so that the resource can be fenced with it at
	// once. The broken claim is reported to its session in Renewal.Broken. It returns
	// ErrNotHeld if no grant has the token. After a data loss what the
	// store shows as holder may be stale until grace is over.
	Break(ctx context.Context, name string, token Token) (Token, error)

	// SetLimit stores the limit of a name for all claims with a Limit,
	// replacing their own; 0 removes it. Raising it grants to queued claims.
	SetLimit(ctx context.Context, name string, limit int64) error
}

// OpenRequest is which session to open.
type OpenRequest struct {
	// Shard is guaranteed to be a value that Shard returned.
	Shard string
	// ID is guaranteed to be fresh, or that of a session this process opened
	// before.
	ID SessionID
	// Before is guaranteed to be the last value that the caller got from this store for the
	// session, or nil if it got none. A store may take over what that value knows. Calls on Before
	// may still be under way or come later, and the answer to an Open in between may have been
	// lost. A store must ignore a value of another type, of another store or of another session,
	// and must not keep Before for longer than Open takes. A store that wraps another must pass
	// on the other's value.
	Before Session
	// TTL is how long the session shall live without being kept alive. It is
	// guaranteed to lie within the bounds of Caps.
	TTL time.Duration
	// Contended takes the notice that another claim is queued for the lock that the claim
	// seq of this session holds with Watch. A store with Caps.Contended must call it, on
	// any goroutine and at any time: a notice may come before the answer to the attempt
	// or after the withdrawal, and more than once. It may be lost with a connection; the
	// core then has no other way to find out. Contended is guaranteed to return soon and to
	// call no method of the store, so that a store may hold a mutex. It may be nil.
	Contended func(seq uint64)
}

// Session is one process's liveness on one shard; all its claims hang on it. All methods
// must be safe for concurrent use: keep-alives, attempts and withdrawals overlap.
//
// Names of all claims used with a session are guaranteed to be on its shard.
type Session interface {
	// KeepAlive extends the session by its TTL, counted from when the store
	// handles the call. One call keeps every lease of the session. Only
	// ErrGone and ErrRefused end the session, and ErrReset makes the core
	// open it again; after any other error, definite or not, the core tries
	// again until the leases' time is over.
	KeepAlive(ctx context.Context) (Renewal, error)

	// Attempt tries to be granted, once, and never waits for a holder. It is
	// idempotent per claim.
	Attempt(ctx context.Context, c *Claim) (Outcome, error)

	// Await returns when it is worth polling a queued or busy claim again. It may
	// return Granted after a push, it may return at any time for no reason, and it
	// returns the context's error when the context ends. It changes nothing in the
	// store but what an Attempt of the same claim would; Withdraw must remove even an
	// attempt of Await that arrives late.
	Await(ctx context.Context, c *Claim) (Outcome, error)

	// Withdraw removes exactly this claim, granted or queued, and grants to
	// the next in the queue. It is idempotent.
	Withdraw(ctx context.Context, w Withdrawal) (Removed, error)

	// Reclaim puts back grants that the store may have lost, each with its
	// token, and answers for each whether it is held now. It comes in batches;
	// with last set, every claim of the session from before the loss, granted
	// or queued, that was neither reclaimed nor attempted since Open must be
	// dropped: its withdrawal was lost, and a session that lives on would
	// keep it forever (clauses R6 and R7).
	Reclaim(ctx context.Context, held []Held, last bool) ([]bool, error)

	// Close ends the session and with it every claim, granted or queued. Calls
	// that come during Close or after it must return soon and grant nothing;
	// ErrGone is the answer of choice. Close is called again after an error. A
	// store with another incarnation may answer ErrReset: the core opens
	// the session again, with the same id, and closes it (clause R8).
	Close(ctx context.Context) error
}
