// SPDX-License-Identifier: Apache-2.0

// Package adapt is what the adapters of all client libraries share: how a call
// ends with its context, and what an error of the way means for what was asked.
package adapt

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// Within runs fn and returns when ctx ends even if fn does not: no client library
// ends every wait with its context (a dialer of the caller's, a read in a
// connection used alone). What fn was doing is then unknown.
func Within[T any](ctx context.Context, fn func() (T, error)) (T, error) {
	if ctx.Done() == nil {
		return fn()
	}
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := fn()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var zero T
		return zero, fmt.Errorf("redisstore: %w: %w", driver.ErrUnknown, ctx.Err())
	}
}

// aclHint is what an error says when the server's user lacks a permission.
const aclHint = "the user of this connection may not do that"

// Answered wraps an error that the server answered. It names what to do about the
// refusals that only an operator can end.
func Answered(err error) error {
	switch text := err.Error(); {
	case Forbidden(err):
		return fmt.Errorf("%w (%s)", rediscmd.Answered(err), aclHint)
	case strings.HasPrefix(text, "NOAUTH ") || strings.HasPrefix(text, "WRONGPASS ") || strings.Contains(text, "unauthenticated"):
		// The last is what a long call gets before a short one would get NOAUTH.
		return fmt.Errorf("%w (check the user and the password in the URL or in the client)", rediscmd.Answered(err))
	}
	return rediscmd.Answered(err)
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

// certHint returns what to change after the server's certificate was rejected.
func certHint(err error) string {
	var otherName x509.HostnameError
	var unknownCA x509.UnknownAuthorityError
	switch {
	case errors.As(err, &otherName):
		return "the server's certificate is for another name; give that name by tls_server_name=NAME in the URL (in Go: TLSConfig.ServerName of the client)"
	case errors.As(err, &unknownCA):
		return "the server's certificate is not trusted; give its CA by tls_ca=FILE in the URL (in Go: TLSConfig.RootCAs of the client)"
	}
	return "the server's certificate is not valid" // it has expired, for example
}

// Failed wraps an error of the way to the server and back.
func Failed(ctx context.Context, err error) error {
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) {
		return fmt.Errorf("redisstore: %w: %s: %w", driver.ErrUnavailable, certHint(err), err)
	}
	return rediscmd.Failed(ctx, err)
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

// Pause waits a moment before a subscription is tried again, for as long as ctx
// lets it; not equally long everywhere, for a server that comes back.
func Pause(ctx context.Context) {
	t := time.NewTimer(25*time.Millisecond + rand.N(50*time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
