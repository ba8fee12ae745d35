// SPDX-License-Identifier: Apache-2.0

package grpcfence

import (
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/httpfence"
)

// domain and the reasons are those of the detail of type ErrorInfo. Clients in other
// languages look for them; they stay as they are.
const (
	domain          = "fencelock"
	reasonStale     = "FENCE_STALE"
	reasonNoToken   = "FENCE_NO_TOKEN"
	reasonWrongLock = "FENCE_WRONG_LOCK"

	givenField = "given" // the mark that was refused
	newerField = "newer" // the one that was there before
)

// answer returns what a server answers to the error of a handler.
func (c *call) answer(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fence.ErrStale):
		return c.answerStale(err)
	case errors.Is(err, fence.ErrNoToken), errors.Is(err, fence.ErrWrongLock):
		return refusal(codes.FailedPrecondition, err, c.mark)
	}
	return err
}

// answerStale is a rejection only if nothing of this call was done, as far as the guard can say.
func (c *call) answerStale(err error) error {
	var stale *fence.StaleError
	if errors.As(err, &stale) && !same(stale.Given, c.mark) {
		// The handler's own lease was refused elsewhere. To the caller that is a failure as any other:
		// its lock is not lost.
		return status.Error(codes.Unknown, err.Error())
	}
	if c.again {
		return status.Errorf(codes.Unknown, "outcome unknown: the client sent this call before, and that may have been done; "+
			"enter again with the same token and read. This time: %v", err)
	}
	return refusal(codes.Aborted, err, c.mark)
}

// same reports whether two marks are of the same acquisition.
func same(a, b fence.Mark) bool { return a.Lock == b.Lock && a.Token == b.Token }

// refusal returns an error of package fence as a status.
func refusal(code codes.Code, err error, given fence.Mark) error {
	info := &errdetails.ErrorInfo{Domain: domain, Reason: reasonNoToken, Metadata: map[string]string{}}
	if given.Token > 0 {
		info.Metadata[givenField] = httpfence.Format(given)
	}
	var stale *fence.StaleError
	switch {
	case errors.Is(err, fence.ErrStale):
		info.Reason = reasonStale
		if errors.As(err, &stale) && stale.Newer.Token > 0 {
			newer := stale.Newer
			newer.Lock = given.Lock
			info.Metadata[newerField] = httpfence.Format(newer)
		}
	case errors.Is(err, fence.ErrWrongLock):
		info.Reason = reasonWrongLock
	}
	st := status.New(code, err.Error())
	if detailed, err := st.WithDetails(info); err == nil {
		st = detailed
	}
	return st.Err()
}

// received returns the error that a client got, as one of package fence if it is a
// rejection of what the client sent.
func received(err error, sent fence.Mark) error {
	if err == nil {
		return nil
	}
	st, _ := status.FromError(err)
	for _, d := range st.Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != domain {
			continue
		}
		if why := rejection(info, st.Message(), sent); why != nil {
			return &refused{why, st}
		}
	}
	return err
}

// rejection returns the error that a detail stands for, nil if it is not about the mark
// that was sent: a service may pass on what another service answered to it.
func rejection(info *errdetails.ErrorInfo, text string, sent fence.Mark) error {
	given, _ := httpfence.Parse(info.GetMetadata()[givenField])
	if given.Token != 0 && !same(given, sent) {
		return nil
	}
	switch info.GetReason() {
	case reasonStale:
		if given.Token == 0 {
			return nil
		}
		stale := &fence.StaleError{Given: sent}
		if newer, err := httpfence.Parse(info.GetMetadata()[newerField]); err == nil && newer.Token > sent.Token && newer.Lock == sent.Lock {
			stale.Newer = newer
		}
		return stale
	case reasonNoToken:
		return fmt.Errorf("%w: refused by the service: %s", fence.ErrNoToken, text)
	case reasonWrongLock:
		return fmt.Errorf("%w: refused by the service: %s", fence.ErrWrongLock, text)
	}
	return nil
}

// refused is a rejection: an error of package fence that is a status, too.
type refused struct {
	err error
	st  *status.Status
}

// Error implements error.
func (r *refused) Error() string { return r.err.Error() }

// Unwrap returns the error of package fence.
func (r *refused) Unwrap() error { return r.err }

// GRPCStatus is for status.FromError and status.Code.
func (r *refused) GRPCStatus() *status.Status { return r.st }
