// SPDX-License-Identifier: Apache-2.0

package rediscmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
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
//
// It names what to do about the refusals that only an operator can end.
func Answered(err error) error {
	meaning := fmt.Errorf("redisstore: %w", err)
	text := err.Error()
	code, _, _ := strings.Cut(text, " ")
	switch {
	case code == "OOM":
		meaning = fmt.Errorf("redisstore: %w: %w: %w", driver.ErrUnavailable, ErrFull, err)
	case slices.Contains(passing, code), strings.Contains(text, "max number of clients reached"):
		meaning = fmt.Errorf("redisstore: %w: %w", driver.ErrUnavailable, err)
	case strings.Contains(text, "user_script:"):
		meaning = fmt.Errorf("redisstore: %w: %w", driver.ErrUnknown, err)
	}
	switch {
	case Forbidden(err):
		return fmt.Errorf("%w (the user of this connection may not do that)", meaning)
	case code == "NOAUTH", code == "WRONGPASS", strings.Contains(text, "unauthenticated"):
		// The last is what a long call gets before a short one would get NOAUTH.
		return fmt.Errorf("%w (check the user and the password in the URL or in the client)", meaning)
	}
	return meaning
}

// Forbidden reports whether the server refused for want of a permission. Inside a
// script the code NOPERM is missing, and the words differ by version.
func Forbidden(err error) bool {
	text := err.Error()
	return strings.Contains(text, "NOPERM ") || strings.Contains(text, "ACL failure in script") ||
		strings.Contains(text, "The user executing the script can't")
}

// UnknownCommand reports whether the server does not have the command of a call, or has it under another name.
func UnknownCommand(err error) bool {
	return err != nil && strings.Contains(strings.ToLower(err.Error()), "unknown command '")
}

// OfReplica reports whether a server rejected a call because it is a replica.
func OfReplica(err error) bool {
	return errors.Is(err, driver.ErrUnavailable) && strings.Contains(err.Error(), "READONLY ")
}

// Failed wraps an error of the way to the server and back. Without a connection
// nothing was sent; otherwise the outcome is unknown.
func Failed(ctx context.Context, err error) error {
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &cert):
		return fmt.Errorf("redisstore: %w: %s: %w", driver.ErrUnavailable, storekit.CertificateHint(err), err)
	case NoConnection(err):
		return fmt.Errorf("redisstore: %w: %w", driver.ErrUnavailable, err)
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		err = errors.Join(ctx.Err(), err)
	}
	return fmt.Errorf("redisstore: %w: %w", driver.ErrUnknown, err)
}

// NoConnection reports whether an error means that no connection could be made.
func NoConnection(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// Unavailable wraps an error before which nothing was sent.
func Unavailable(err error) error {
	return fmt.Errorf("redisstore: %w: %w", driver.ErrUnavailable, err)
}

// MissingScript reports whether the server did not know a script by its SHA, which
// means that it did nothing.
func MissingScript(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT")
}
