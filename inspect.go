// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"errors"
	"iter"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/core"
)

// listPage is how many locks are asked for at a time.
const listPage = 256

// Inspect returns the holders and the waiters of the lock of that name. It is one call to
// the store, whose answer may be out of date when it arrives. An error wraps [ErrUnavailable]
// if the store did not answer.
func (c *Client) Inspect(ctx context.Context, name string) (Status, error) {
	if err := checkName(name); err != nil {
		return Status{}, err
	}
	var st Status
	err := c.ask(ctx, "inspect", name, func(ctx context.Context) (err error) {
		st, err = c.store.Inspect(ctx, name)
		return err
	})
	return st, err
}

// List yields every lock that is held, kept or waited for and whose name
// starts with prefix. It reads a page at a time; a lock that comes or goes
// during the listing may be missing. The sequence ends at the first error, which is
// [ErrUnsupported] on a store that cannot list.
func (c *Client) List(ctx context.Context, prefix string) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		for cursor := ""; ; {
			var page driver.Page
			err := c.ask(ctx, "list", "", func(ctx context.Context) (err error) {
				if !c.caps.Listing {
					return driver.ErrUnsupported
				}
				page, err = c.store.List(ctx, driver.ListQuery{Prefix: prefix, Cursor: cursor, Max: listPage})
				return err
			})
			if err != nil {
				yield(Status{}, err)
				return
			}
			for _, st := range page.Locks {
				if !yield(st, nil) {
					return
				}
			}
			cursor = page.Next
			if cursor == "" {
				return
			}
		}
	}
}

// Ready reports whether the store grants new locks now, for the readiness check of a pod. It
// returns nil if so, an error that is [ErrGrace], with the time that is left, in a grace period, and [ErrUnavailable]
// if the store does not answer.
//
// It asks for the shards of the given names, or for one shard without names. Ready reads only: it takes
// no lock, and leaves a namespace that no process has used as it is.
func (c *Client) Ready(ctx context.Context, names ...string) error {
	if len(names) == 0 {
		names = []string{"fencelock-ready"}
	}
	for _, name := range names {
		st, err := c.Inspect(ctx, name)
		if err != nil {
			return err
		}
		if st.Grace > 0 {
			return &Error{Op: "ready", Name: name, Server: c.caps.Engine, Err: &GraceError{Name: name, RetryAfter: st.Grace}}
		}
	}
	return nil
}

// ForceUnlock force-releases the lease with that token and returns a token above it: raise
// the fence of the protected resource to the returned token, and the old holder can do
// no more harm there. The old holder is notified at its next renewal, which may be after
// the next holder was granted the lock. ForceUnlock returns [ErrNotHeld] if no holder has that
// token. After a data loss wait for the end of the grace period (Status.Grace): until
// then the store may show a holder from before the data loss, and the fence would shut
// out the true holder.
func (c *Client) ForceUnlock(ctx context.Context, name string, token Token) (Token, error) {
	if err := checkName(name); err != nil {
		return 0, err
	}
	var fence Token
	err := c.ask(ctx, "force unlock", name, func(ctx context.Context) (err error) {
		fence, err = c.store.Break(ctx, name, token)
		return err
	})
	return fence, err
}

// ask makes one bounded call to the store that needs no session, and wraps its error.
func (c *Client) ask(ctx context.Context, op, name string, call func(context.Context) error) error {
	var err error
	switch {
	case c.core.Closed():
		err = ErrClosed
	case ctx.Err() != nil: // the store is not asked, and so it is not unavailable
		err = core.CtxError(ctx)
	default:
		err = c.asked(ctx, call)
	}
	if err == nil {
		return nil
	}
	return &Error{Op: op, Name: name, Server: c.caps.Engine, Err: err}
}

// asked makes the call and returns its error as one of this package.
func (c *Client) asked(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	err := call(ctx)
	switch {
	case errors.Is(err, driver.ErrNotHeld):
		return ErrNotHeld
	case errors.Is(err, driver.ErrUnsupported):
		return ErrUnsupported
	case core.Transient(err):
		return core.Unavailable(err)
	}
	return err
}
