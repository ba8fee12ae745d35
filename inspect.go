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
// the store, whose answer may be out of date when it arrives. An error wraps ErrUnavailable
// if the store did not answer.
func (c *Client) Inspect(ctx context.Context, name string) (Status, error) {
	if err := checkName(name); err != nil {
		return Status{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	st, err := c.store.Inspect(ctx, name)
	return st, c.asked("inspect", name, err)
}

// List yields every lock that is held, kept or waited for and whose name
// starts with prefix. It reads a page at a time; a lock that comes or goes
// during the listing may be missing. The sequence ends at the first error, which is
// ErrUnsupported on a store that cannot list.
func (c *Client) List(ctx context.Context, prefix string) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		if !c.caps.Listing {
			yield(Status{}, c.asked("list", "", driver.ErrUnsupported))
			return
		}
		for cursor := ""; ; {
			call, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
			page, err := c.store.List(call, driver.ListQuery{Prefix: prefix, Cursor: cursor, Max: listPage})
			cancel()
			if err != nil {
				yield(Status{}, c.asked("list", "", err))
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

// Break force-releases the lease with that token and returns a token above it: raise
// the fence of the protected resource to the returned token, and the old holder can do
// no more harm there. The old holder is notified at its next renewal, which may be after
// the next holder was granted the lock. Break returns ErrNotHeld if no holder has that
// token. After a data loss wait for the end of the grace period (Status.Grace): until
// then the store may show a holder from before the data loss, and the fence would shut
// out the true holder.
func (c *Client) Break(ctx context.Context, name string, token Token) (Token, error) {
	if err := checkName(name); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	fence, err := c.store.Break(ctx, name, token)
	if errors.Is(err, driver.ErrNotHeld) {
		err = ErrNotHeld
	}
	return fence, c.asked("break", name, err)
}

// asked wraps the error of a question put to the store.
func (c *Client) asked(op, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrUnsupported):
		err = ErrUnsupported
	case core.Transient(err):
		err = core.Unavailable(err)
	}
	return &Error{Op: op, Name: name, Server: c.caps.Engine, Err: err}
}
