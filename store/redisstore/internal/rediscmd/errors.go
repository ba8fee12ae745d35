// SPDX-License-Identifier: Apache-2.0

package rediscmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/driver"
)

// passing are the codes of a server that did nothing and may do it a moment later.
var passing = []string{
	"LOADING",     // it reads its memory from disk
	"BUSY",        // a script does not end
	"READONLY",    // it is a replica: a failover is under way
	"MASTERDOWN",  // it is a replica that lost its master
	"CLUSTERDOWN", // no node serves the slot, or too few nodes see each other
	"TRYAGAIN",    // the slot is on its way to another node
	"MOVED",       // it has gone there, and the client gave up following
	"ASK",
	"MISCONF",    // it cannot write to its disk
	"NOREPLICAS", // fewer replicas follow than min-replicas-to-write
}

// ErrFull is part of the error when memory is full and nothing may be evicted: OOM.
var ErrFull = errors.New("the server's memory is full")

// Answered wraps an error that the server answered. Three kinds:
//
//   - It did nothing and may do it later: OOM or one of the codes above. READONLY, OOM,
//     MISCONF and NOREPLICAS come from within a script, but only from its first
//     write: a server does not stop a script that has written for their sake.
//   - A script broke off: over a value that it cannot read, or a permission that only
//     some commands lack. What it had written stays, so the outcome is unknown.
//   - It refused the call as a whole: it did nothing, and will not do it.
func Answered(err error) error {
	text := err.Error()
	code, _, _ := strings.Cut(text, " ")
	switch {
	case code == "OOM":
		return fmt.Errorf("redisstore: %w: %w: %w", driver.ErrUnavailable, ErrFull, driver.Inner(err))
	case slices.Contains(passing, code), strings.Contains(text, "max number of clients reached"):
		return fmt.Errorf("redisstore: %w: %w", driver.ErrUnavailable, driver.Inner(err))
	case strings.Contains(text, "user_script:"):
		return fmt.Errorf("redisstore: %w: %w", driver.ErrUnknown, driver.Inner(err))
	}
	return fmt.Errorf("redisstore: %w", driver.Inner(err))
}

// Failed wraps an error of the way to the server and back. Without a connection
// nothing was sent; otherwise the outcome is unknown.
func Failed(ctx context.Context, err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return fmt.Errorf("redisstore: %w: %w", driver.ErrUnavailable, driver.Inner(err))
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = errors.Join(ctx.Err(), err)
	}
	return fmt.Errorf("redisstore: %w: %w", driver.ErrUnknown, driver.Inner(err))
}
