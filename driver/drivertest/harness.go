// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"errors"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Harness connects the cases to a store under test. It is a struct of functions
// so that it can grow; only Open is required. The caller closes what Open
// opened.
type Harness struct {
	// Open returns a store value on the server under test. It is called at most
	// twice per Harness. The two values must share nothing but the server, like
	// two processes.
	Open func() (driver.Store, error)

	// Elapse lets the store's clock advance by at least d, and returns then. If
	// nil, the cases really wait; in a synctest bubble that is free.
	Elapse func(d time.Duration)

	// Reset makes the server lose all its data and go on as a new incarnation,
	// as a restart of a server without a disk does. Open store values must stay
	// usable. It should lose no more than what the tokens survive by the store's
	// documentation. If nil, the cases that need it are skipped.
	Reset func() error

	// Restart makes the server go on as a new incarnation whose data is
	// intact, although the store cannot know that. If nil, the cases that need
	// it are skipped.
	Restart func() error

	// Checkpoint notes the server's data as it is now. rewind, called at most
	// once, makes the server go on from there as a new incarnation, as a
	// replica does that lags when it takes over. If nil, the cases that need it
	// are skipped.
	Checkpoint func() (rewind func() error)

	// Sever makes the server stop answering all open store values, without
	// notifying them, until heal is called. If nil, the cases that need it are
	// skipped.
	Sever func() (heal func())

	// Prefix starts the names of all locks the cases use; by default
	// "drivertest/". The cases append a part that is never used twice.
	// Prefix may be at most 64 bytes long.
	Prefix string

	// TTL is asked for by sessions that shall end during a case, 2 s by
	// default. It is moved into the bounds of Caps. Sessions that shall live
	// ask for fifteen times as much, as far as Caps allows.
	TTL time.Duration

	// Slack is how long before the end of a duration the cases still rely on
	// it, and how long after it they rely on its end. It covers the resolution
	// of the store's clock, its delay in noticing and the time a call takes. By
	// default it is a quarter of the TTL; in a bubble 1 ms is enough.
	Slack time.Duration

	// Soon is how long something may take that happens "soon", and every call;
	// 5 s by default.
	Soon time.Duration

	mu     sync.Mutex
	stores []driver.Store
}

const (
	defaultPrefix = "drivertest/"
	defaultTTL    = 2 * time.Second
	defaultSoon   = 5 * time.Second
	maxPrefix     = 64
	// longFactor makes sessions that shall live outlast every case on a slow
	// machine, while a session left behind by a crash still ends by itself.
	longFactor = 15
)

// store returns the i-th of the two store values, and opens it when first asked
// for: most cases need only one.
func (h *Harness) store(i int) (driver.Store, error) {
	if h.Open == nil {
		return nil, errors.New("drivertest: Harness.Open is required")
	}
	if len(h.Prefix) > maxPrefix {
		return nil, errors.New("drivertest: Harness.Prefix is longer than 64 bytes")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.stores) <= i {
		s, err := h.Open()
		if err != nil {
			return nil, err
		}
		h.stores = append(h.stores, s)
	}
	return h.stores[i], nil
}

// ttls returns what short and long sessions ask for, longer by a factor.
func (h *Harness) ttls(c driver.Caps, stretch float64) (short, long time.Duration) {
	clamp := func(d time.Duration) time.Duration {
		d = max(d, c.MinTTL)
		if c.MaxTTL > 0 {
			d = min(d, c.MaxTTL)
		}
		return d
	}
	short = clamp(time.Duration(float64(or(h.TTL, defaultTTL)) * stretch))
	return short, clamp(longFactor * short)
}

func (h *Harness) soon() time.Duration { return or(h.Soon, defaultSoon) }

// or returns v, or the default if v is the zero value.
func or[V comparable](v, def V) V {
	var zero V
	if v == zero {
		return def
	}
	return v
}
