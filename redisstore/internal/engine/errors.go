// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/fencelock/fencelock/driver"
)

// passing are the answers of a server that did nothing and may do it a moment
// later.
var passing = []string{"LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "BUSY", "MOVED", "ASK", "UNKILLABLE"}

// Answered wraps an error that the server answered: it certainly did nothing.
func Answered(err error) error {
	for _, word := range passing {
		if strings.HasPrefix(err.Error(), word+" ") {
			return fmt.Errorf("redisstore: %w: %w", driver.ErrUnavailable, err)
		}
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
