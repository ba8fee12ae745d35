// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/faultstore"
)

// TestCloseLeavesNothing: a node opens the session only after it was closed on the
// others. It is closed there at once, and what waited for it to open is not sent.
func TestCloseLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		late := faultstore.On(faultstore.Open, faultstore.Delay(150*time.Millisecond, 0))
		c := r.process(map[int]faultstore.Fault{2: late}, nil)
		r.lock("c", c, "x")
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.say("closed")
		time.Sleep(time.Second)
		for _, name := range []string{"x", ".quorum/nodes/0"} {
			if n := r.taken(name); n != 0 {
				t.Errorf("a second after Close %q is on %d nodes: %s", name, n, r.holders(name))
			}
		}
	})
}
