// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestManyTries: a claim is granted by a minority and gives it back hundreds of times
// before the lock is free; then it is granted everywhere.
func TestManyTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, &memstore.Options{NoPush: true, NoQueue: true})
		var foreign []driver.Session
		for i := 1; i < 3; i++ {
			f, _, err := r.stores[i].Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Minute})
			must.OK(t, err)
			if out, err := f.Attempt(t.Context(), claim(1)); err != nil || out.State != driver.Granted {
				t.Fatalf("got %+v, %v", out, err)
			}
			foreign = append(foreign, f)
		}
		d := r.open(nil)
		c := claim(1)
		c.Queue = true
		for range 600 {
			if out, err := d.Attempt(t.Context(), c); err != nil || out.State != driver.Busy {
				t.Fatalf("got %+v, %v, want busy", out, err)
			}
			time.Sleep(time.Millisecond) // what a granted is given back
		}
		for _, f := range foreign {
			must.OK(t, f.Close(t.Context()))
		}
		out, err := d.Attempt(t.Context(), c)
		time.Sleep(time.Millisecond)
		if err != nil || out.State != driver.Granted || r.taken("x") != 3 {
			t.Errorf("got %+v, %v, on %d nodes; want it granted on 3", out, err, r.taken("x"))
		}
	})
}
