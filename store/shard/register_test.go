// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestEndedSessionIsToldSoWithoutMarkers: the last session of a process was closed elsewhere, and its first call that found so has
// ended the markers. Later calls answer that the session has ended, not that a member is away: the core would try again.
func TestEndedSessionIsToldSoWithoutMarkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New([]Member{{Name: "a", Store: memstore.New(nil)}, {Name: "b", Store: memstore.New(nil)}}, nil)
		must.OK(t, err)
		d, _, err := s.Open(t.Context(), driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: 10 * time.Second})
		must.OK(t, err)
		must.OK(t, d.(*session).Session.Close(t.Context()))
		for i := range 2 {
			if _, err := d.KeepAlive(t.Context()); !errors.Is(err, driver.ErrGone) {
				t.Errorf("keep-alive %d: %v, want that the session has ended", i, err)
			}
			synctest.Wait() // the markers end
			c := &driver.Claim{Seq: uint64(1 + i), Name: "x", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{Owner: "orders-7"}}}
			if _, err := d.Attempt(t.Context(), c); !errors.Is(err, driver.ErrGone) || errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("attempt %d: %v, want that the session has ended", i, err)
			}
		}
	})
}

// TestLastSessionThatEndsRefusesNobody: a marker that is kept just when the last session has ended is not sent with a TTL of 0, which
// the member refuses: all later attempts would be refused, too.
func TestLastSessionThatEndsRefusesNobody(t *testing.T) {
	r := newRegister([]Member{{Name: "a", Store: memstore.New(nil)}, {Name: "b", Store: memstore.New(nil)}}, 0)
	if err := r.keep(t.Context(), r.entries[0]); err == nil {
		t.Error("a marker without a session is kept")
	}
	if refused := r.refused.Load(); refused != nil {
		t.Errorf("later attempts are refused: %v", *refused)
	}
}
