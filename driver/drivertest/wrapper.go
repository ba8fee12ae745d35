// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"context"
	"testing"

	"github.com/fencelock/fencelock/driver"
)

// PassesBefore tests a store that wraps another one. The wrapper must pass on, in
// OpenRequest.Before, the value that the inner store returned and not its own: the inner store
// would not know it. wrap makes the wrapper; inner is any store, as memstore.
func PassesBefore(t testing.TB, inner driver.Store, wrap func(inner driver.Store) driver.Store) {
	t.Helper()
	w := &witness{Store: inner, last: map[driver.SessionID]driver.Session{}}
	outer := wrap(w)
	req := driver.OpenRequest{Shard: outer.Shard("lock"), ID: driver.NewSessionID(), TTL: defaultTTL}
	const opens = 3
	for range opens {
		s, _, err := outer.Open(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		req.Before = s
	}
	if err := req.Before.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if w.again != opens-1 || w.wrong > 0 {
		t.Errorf("the inner store was asked %d times to open a session again, and %d times without its last value in Before; want %d and 0", w.again, w.wrong, opens-1)
	}
}

// witness counts the sessions that are opened again, and those without their last value. Some wrappers also open
// sessions of their own.
type witness struct {
	driver.Store
	last         map[driver.SessionID]driver.Session
	again, wrong int
}

// witnessed is a session of a witness.
type witnessed struct{ driver.Session }

func (w *witness) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	if last := w.last[req.ID]; last != nil {
		w.again++
		if req.Before != last {
			w.wrong++
		}
	}
	s, renewal, err := w.Store.Open(ctx, req)
	if err != nil {
		return nil, renewal, err
	}
	w.last[req.ID] = &witnessed{s}
	return w.last[req.ID], renewal, nil
}
