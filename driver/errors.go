// SPDX-License-Identifier: Apache-2.0

package driver

import "errors"

// The errors with a meaning. A driver wraps them (fmt.Errorf with %w) around
// what the server answered. Any other error means: the store certainly did
// nothing, and trying again will not help.
var (
	// ErrUnknown is returned when the store may or may not have done it: a
	// reply that never came, a connection that broke after the request left, a
	// context that ended while the call was under way.
	ErrUnknown = errors.New("outcome unknown")

	// ErrUnavailable is returned when the store certainly did nothing and
	// trying again may help: no connection, still loading, read-only replica. For users
	// it is fencelock.ErrUnavailable, also when a function of a store returns it, such as Open.
	ErrUnavailable error = unavailable{}

	// ErrGone is returned when the store certainly regards the session as
	// ended: expired or closed. Its leases are lost.
	ErrGone = errors.New("session ended")

	// ErrReset is returned when the store has another incarnation than
	// the one that the session was opened in. What the session had
	// may be gone; the core opens it again with the same id and reclaims.
	ErrReset = errors.New("store lost its data")

	// ErrNotHeld is returned by Break when no grant has that token.
	ErrNotHeld = errors.New("not held")

	// ErrUnsupported is returned for what the store cannot do by its Caps.
	ErrUnsupported = errors.ErrUnsupported

	// ErrRefused is returned when the request contradicts the settings of the
	// namespace or the bounds in Caps. It is definite; the text names the
	// setting that differs.
	ErrRefused = errors.New("refused by the store's settings")
)

type unavailable struct{}

// Error implements error.
func (unavailable) Error() string { return "store unavailable" }

// Is lets errors.Is find fencelock.ErrUnavailable, which this package cannot import, by its method.
func (unavailable) Is(target error) bool {
	_, is := target.(interface{ Unavailable() })
	return is
}
