// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencelock/fencelock/driver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Kind is what a call could have changed.
type Kind bool

// The kinds.
const (
	Reading Kind = false
	Writing Kind = true
)

// failed turns what the client returned into the words of the contract. Only what etcd
// certainly refused is a definite error: whatever else may go wrong with a write
// may go wrong after it was done.
func failed(ctx context.Context, store, op string, err error, k Kind) error {
	for _, known := range []error{driver.ErrUnknown, driver.ErrUnavailable, driver.ErrGone, driver.ErrReset,
		driver.ErrNotHeld, driver.ErrRefused} {
		if errors.Is(err, known) {
			return fmt.Errorf("%s: %s: %w", store, op, err)
		}
	}
	var early notSent
	if errors.As(err, &early) {
		return fmt.Errorf("%s: %s: %w", store, op, early.error)
	}
	err = clientv3.ContextError(ctx, err)
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	switch sort := outcome(err); {
	case sort != nil:
		return fmt.Errorf("%s: %s: %w: %w", store, op, sort, err)
	case Definite(err):
		return fmt.Errorf("%s: %s: %w", store, op, err)
	case k == Reading:
		return fmt.Errorf("%s: %s: %w: %w", store, op, driver.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %s: %w: %w", store, op, driver.ErrUnknown, err)
}

// NotDone reports whether a write that returned err certainly did nothing in this cluster.
func NotDone(ctx context.Context, err error) bool {
	err = failed(ctx, "", "", err, Writing)
	return !errors.Is(err, driver.ErrUnknown) && !errors.Is(err, driver.ErrReset)
}

// outcome returns the error of the contract for what etcd certainly refused for
// now, nil for the rest.
func outcome(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrTooManyRequests), errors.Is(err, rpctypes.ErrNoSpace),
		errors.Is(err, rpctypes.ErrNotCapable), notServed(err):
		return driver.ErrUnavailable
	}
	return nil
}

// errLearner is what a learner refuses calls with. Package rpctypes has no variable for it.
var errLearner = rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner)

// notServed reports whether a member refused a call because it serves nobody now: it has no leader, or is a learner. It did nothing,
// and another member may do it.
func notServed(err error) bool {
	for _, known := range []error{rpctypes.ErrNoLeader, errLearner} {
		if errors.Is(err, known) || rpctypes.Error(err) == known {
			return true
		}
	}
	return false
}

// Definite reports whether etcd refused for good.
func Definite(err error) bool {
	for _, known := range []error{rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrAuthFailed,
		rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyOps, rpctypes.ErrLeaseTTLTooLarge} {
		if errors.Is(err, known) {
			return true
		}
	}
	code := status.Code(err)
	return code == codes.Unimplemented || code == codes.Unauthenticated
}

// notSent marks the error of a context that had ended before anything was sent.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// Before returns an error if ctx has ended: nothing is sent then, so nothing is
// unknown.
func Before(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return notSent{err}
	}
	return nil
}

// LeaseMissing reports whether a lease that a call named is not there.
func LeaseMissing(err error) bool {
	return errors.Is(err, rpctypes.ErrLeaseNotFound) || rpctypes.Error(err) == rpctypes.ErrLeaseNotFound
}

// leaseThere reports whether a lease that a call makes is there already.
func leaseThere(err error) bool {
	return errors.Is(err, rpctypes.ErrLeaseExist) || rpctypes.Error(err) == rpctypes.ErrLeaseExist
}
