// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestANoticeDuringACutIsLost: the notice that a claim waits is a message as any other. The
// store repeats it with the next keep-alive.
func TestANoticeDuringACutIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, mem := context.Background(), memstore.New(nil)
		s, err := Wrap(mem, MustParse("on(inspect, cut(2s))"), nil)
		must.OK(t, err)
		notices := 0
		open := func(store driver.Store, wanted func(uint64)) driver.Session {
			session, _, err := store.Open(ctx, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Minute, Contended: wanted})
			must.OK(t, err)
			return session
		}
		attempt := func(session driver.Session, c driver.Claim) {
			c.Name, c.Terms = "x", &driver.Terms{Weight: 1, Record: &driver.Record{}}
			if _, err := session.Attempt(ctx, &c); err != nil {
				t.Fatal(err)
			}
		}
		holder, other := open(s, func(uint64) { notices++ }), open(mem, nil)
		attempt(holder, driver.Claim{Seq: 1, Watch: true})
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := s.Inspect(short, "x"); err == nil {
			t.Fatal("the connection is not cut")
		}
		attempt(other, driver.Claim{Seq: 1, Queue: true})
		if notices != 0 {
			t.Error("a notice came through a connection that is cut")
		}
		time.Sleep(2 * time.Second)
		if _, err := holder.KeepAlive(ctx); err != nil || notices != 1 {
			t.Errorf("%d notices, and %v; want one when the connection is back", notices, err)
		}
	})
}
