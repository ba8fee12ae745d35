// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/faultstore"
)

// TestReclaimWaitsForANodeThatItNeeds: x is on a and b. All nodes lose their data, and one of the calls
// that bring the session back is slow on a, longer than a round waits for a node that it can do
// without. c never had the claim, so a decides.
func TestReclaimWaitsForANodeThatItNeeds(t *testing.T) {
	const from = 5 * time.Second // when the nodes lose their data
	for _, slow := range []faultstore.Op{faultstore.KeepAlive, faultstore.Open, faultstore.Reclaim} {
		t.Run(string(slow), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 3, grace())
				s := r.store(map[int]faultstore.Fault{
					0: faultstore.On(slow, faultstore.During(from, time.Hour, faultstore.Delay(70*time.Millisecond, 70*time.Millisecond))),
					2: faultstore.On(faultstore.Attempt, faultstore.Name("x", faultstore.Refuse())),
				})
				t.Cleanup(func() { _ = s.Close() })
				req := driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: 10 * time.Second}
				d, _, err := s.Open(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				out, err := d.Attempt(t.Context(), claim(1))
				if err != nil || out.State != driver.Granted {
					t.Fatalf("got %+v, %v", out, err)
				}
				time.Sleep(from)
				for _, store := range r.stores {
					store.Reset()
				}
				if _, err := d.KeepAlive(t.Context()); !errors.Is(err, driver.ErrReset) {
					t.Fatalf("got %v, want a reset", err)
				}
				if d, _, err = s.Open(t.Context(), req); err != nil {
					t.Fatal(err)
				}
				kept, err := d.Reclaim(t.Context(), []driver.Held{{Claim: *claim(1), Token: out.Token}}, true)
				if err != nil || !kept[0] {
					t.Errorf("reclaimed %v, %v; %s", kept, err, r.holders("x"))
				}
			})
		})
	}
}
