// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
)

// TestEndedSessionIsReportedAsEnded: one node never had the session, one says that it has
// ended, and the last says so later. Two of three failed by then, but not for the same
// reason: it takes the last one to know that the session is over and not out of reach.
func TestEndedSessionIsReportedAsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, nil)
		s := r.store(map[int]faultstore.Fault{
			0: faultstore.On(faultstore.Open, faultstore.Refuse()),
			2: faultstore.On(faultstore.KeepAlive, faultstore.Delay(0, 50*time.Millisecond)),
		})
		defer s.Close()
		ctx := t.Context()
		ses, _, err := s.Open(ctx, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Second})
		must.OK(t, err)
		time.Sleep(2 * time.Second)
		if _, err := ses.KeepAlive(ctx); !errors.Is(err, driver.ErrGone) {
			t.Errorf("got %v, want ErrGone", err)
		}
	})
}
