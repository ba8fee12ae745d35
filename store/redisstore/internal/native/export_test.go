// SPDX-License-Identifier: Apache-2.0

package native

import (
	"time"
	"weak"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// Switches change what a store does by itself, so that tests repeat.
type Switches struct {
	// Clock returns what the server's clock shows. If it is nil, the clock
	// is estimated from the replies of the server.
	Clock func() time.Time
	// Eager makes Open wait until the fast path can be taken, takes it for contended names,
	// too, and sweeps nothing in the background.
	Eager bool
	// Contended takes all names for contended, so that no plain commands are used.
	Contended bool
	// Batched sends single operations of the fast path as the script of batches, too.
	Batched bool
}

// NewWith is New with switches.
func NewWith(client rediscmd.Client, opts *Options, on Switches) (*Store, error) {
	s, err := New(client, opts, nil)
	if err != nil {
		return nil, err
	}
	s.switches = switches{on.Clock, on.Eager, on.Batched}
	s.contended.off, s.contended.all = on.Eager, on.Contended
	return s, nil
}

// Source is source, for tests that change scripts.
func Source(name, text string) (first, rest string) { return source(name, text) }

// Freed returns a function that reports whether the memory of a session is free.
func Freed(s driver.Session) func() bool {
	p := weak.Make(s.(*session))
	return func() bool { return p.Value() == nil }
}
