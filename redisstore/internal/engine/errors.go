// SPDX-License-Identifier: Apache-2.0

package engine

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
	"BUSY",        // somebody's script does not end
	"READONLY",    // it is a replica: a failover is under way
	"MASTERDOWN",  // it is a replica that lost its master
	"CLUSTERDOWN", // nobody serves the slot, or too few nodes see each other
	"TRYAGAIN",    // the slot is on its way to another node
	"MOVED",       // it has gone there, and the client gave up following
	"ASK",
	"OOM",        // memory is full and nothing may be evicted
	"MISCONF",    // it cannot write to its disk
	"NOREPLICAS", // fewer replicas follow than min-replicas-to-write
}

// Answered wraps an error that the server answered. Three kinds:
//
//   - It did nothing and may do it later: one of the codes above. READONLY, OOM,
//     MISCONF and NOREPLICAS come from within a script, but only from its first
//     write: a server does not stop a script that has written for their sake.
//   - A script broke off: over a value that somebody else wrote, or a permission
//     that only some commands lack. What it had written stays, so nobody knows.
//   - It refused the call as a whole: it did nothing, and will not do it.
func Answered(err error) error {
	text := err.Error()
	code, _, _ := strings.Cut(text, " ")
	switch {
	case slices.Contains(passing, code), strings.Contains(text, "max number of clients reached"):
		return fmt.Errorf("redisstore: %w: %w", driver.ErrUnavailable, err)
	case strings.Contains(text, "user_script:"):
		return fmt.Errorf("redisstore: %w: %w", driver.ErrUnknown, err)
	}
	return fmt.Errorf("redisstore: %w", err)
}

// Failed wraps an error of the way to the server and back. Without a connection
// nothing was sent; otherwise nobody knows.
func Failed(ctx context.Context, err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return fmt.Errorf("redisstore: %w: %w", driver.ErrUnavailable, err)
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = errors.Join(ctx.Err(), err)
	}
	return fmt.Errorf("redisstore: %w: %w", driver.ErrUnknown, err)
}

// verdict turns the first word of a reply into an error.
func verdict(reply []any) error {
	if len(reply) == 0 {
		return errors.New("redisstore: the script answered nothing")
	}
	switch word, _ := reply[0].(string); word {
	case "GONE":
		return fmt.Errorf("redisstore: %w", driver.ErrGone)
	case "FORGOTTEN":
		return fmt.Errorf("redisstore: %w", driver.ErrForgotten)
	case "NOTHELD":
		return fmt.Errorf("redisstore: %w", driver.ErrNotHeld)
	case "REFUSED":
		theirs, _ := reply[1].(string)
		return fmt.Errorf("redisstore: the namespace was set up with %q; use the same Options or another Namespace: %w",
			theirs, driver.ErrRefused)
	}
	return nil
}
