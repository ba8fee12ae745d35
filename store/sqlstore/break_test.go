// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// plain is a claim for a lock with nothing special about it.
func plain(seq uint64, name string) *driver.Claim {
	return &driver.Claim{Seq: seq, Name: name, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
}

// TestBreakBesideAKeepAlive: a keep-alive comes after the session was notified and
// before the lock is broken. The next one must check again.
func TestBreakBesideAKeepAlive(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		const word = "the-broken-one"
		operator := k.behind(t, server)
		s := k.store(t, k.connect(t, server.Port), &operator.opts)
		ss, _, err := s.Open(ctxb, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Minute})
		must.OK(t, err)
		out, err := ss.Attempt(ctxb, plain(1, word))
		must.OK(t, err)

		var mu sync.Mutex
		notified, between := false, 0
		operator.proxy.Filter(func(_ int, toServer bool, data []byte) bool {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case !toServer || !bytes.Contains(data, []byte(word)):
			case bytes.Contains(data, []byte(`"`+word+`"`)):
				notified = true
			case notified: // the lock is about to be written
				between++
				if _, err := ss.KeepAlive(ctxb); err != nil {
					t.Error(err)
				}
			}
			return true
		})
		_, err = operator.Break(ctxb, word, out.Token)
		must.OK(t, err)
		operator.proxy.Filter(nil)
		if between == 0 {
			t.Fatal("no keep-alive came in between")
		}
		for range 2 { // it is reported until the claim is withdrawn
			renewal, err := ss.KeepAlive(ctxb)
			must.OK(t, err)
			if !slices.Equal(renewal.Broken, []uint64{1}) {
				t.Fatalf("the renewal reports %v as broken, want claim 1", renewal.Broken)
			}
		}
		found, err := ss.Withdraw(ctxb, driver.Withdrawal{Seq: 1, Name: word})
		must.OK(t, err)
		if found != driver.WasBroken {
			t.Errorf("withdrawn it was %v, want broken", found)
		}
		renewal, err := ss.KeepAlive(ctxb)
		must.OK(t, err)
		if len(renewal.Broken) != 0 {
			t.Errorf("after the withdrawal the renewal reports %v as broken", renewal.Broken)
		}
	})
}
