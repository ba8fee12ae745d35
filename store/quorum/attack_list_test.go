// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/quorum"
)

// processOf returns a client whose list has only these nodes.
func (r *rig) processOf(nodes []quorum.Node) *fencelock.Client {
	r.t.Helper()
	s, err := quorum.New(nodes, &quorum.Options{Alarm: r.alarm, NodeTimeout: 200 * time.Millisecond})
	must.OK(r.t, err)
	c, err := fencelock.New(s, &fencelock.Options{TTL: 10 * time.Second})
	must.OK(r.t, err)
	r.t.Cleanup(func() { _ = c.Close(context.Background()); _ = s.Close() })
	return c
}

// TestAttackOtherList: two lists share one node, which is away from the first client
// until the second has come. Both hold until then: their majorities do not meet. When
// the shared node answers the first, it is refused there, and loses what it has.
func TestAttackOtherList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 5, grace())
		first := r.processOf(r.nodes(map[int]faultstore.Fault{2: away(0, 2*time.Second)})[:3])
		second := r.processOf(r.nodes(nil)[2:])
		held := r.lock("first, with a b c", first, "x")
		other := r.lock("second, with c d e", second, "x")
		select {
		case <-held.Context().Done():
		case <-time.After(time.Minute):
			t.Fatal("a minute later the first client does not know of the other list")
		}
		r.log("first: %v", held.Err())
		if !errors.Is(held.Err(), fencelock.ErrLost) || !errors.Is(held.Err(), driver.ErrRefused) {
			t.Errorf("the first client has %v, want lost because it is refused", held.Err())
		}
		for range 3 {
			if _, err := first.Mutex("y").TryLock(t.Context()); !errors.Is(err, driver.ErrRefused) {
				t.Errorf("the first client takes another lock: got %v, want refused", err)
			}
		}
		alarms := 0
		for _, a := range r.alarms {
			if a.Kind == quorum.OtherList {
				alarms++
			}
		}
		if alarms != 1 {
			t.Errorf("%d alarms about another list, want one: %v", alarms, r.alarms)
		}
		if !other.Valid() {
			t.Errorf("the second client lost its lease: %v", other.Err())
		}
		must.OK(t, first.Close(t.Context()))
		time.Sleep(time.Second)
		if on := r.on("x", held.Token()); on != "c d e" { // the second has the same token
			t.Errorf("x is on %q, want c d e", on)
		}
	})
}
