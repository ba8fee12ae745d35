// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/redis/rueidis"
)

// closer is a connection that notes that it was closed.
type closer struct {
	rueidis.DedicatedClient
	closed bool
}

func (c *closer) Close() { c.closed = true }

// TestContextEndsTheCallOnAConnection: the end of a context closes the connection on which a
// call with that context is under way, and never at another time: the first time the
// context comes, and when it is watched between calls.
func TestContextEndsTheCallOnAConnection(t *testing.T) {
	for before := range 4 {
		for _, during := range []string{"its call", "no call", "a call with another context"} {
			synctest.Test(t, func(t *testing.T) {
				locks, end := context.WithCancel(context.Background())
				defer end()
				releases, endReleases := context.WithCancel(context.Background())
				defer endReleases()
				conn, w := &closer{}, &watch{}
				for range before {
					for _, ctx := range []context.Context{locks, releases} {
						if !w.begin(ctx, conn) || !w.end(ctx) {
							t.Fatal("a context that has not ended stopped a call")
						}
					}
				}
				var call context.Context
				switch during {
				case "its call":
					call = locks
				case "a call with another context":
					call = releases
				}
				if call != nil && !w.begin(call, conn) {
					t.Fatal("the context has not ended")
				}
				end()
				synctest.Wait()
				if want := call == locks; conn.closed != want {
					t.Errorf("after %d calls, during %s: closed is %v, want %v", before, during, conn.closed, want)
				}
				if call != nil && w.end(call) == conn.closed {
					t.Errorf("after %d calls, during %s: the call does not know whether it was stopped", before, during)
				}
				if w.begin(locks, conn) {
					t.Error("a call began with a context that had ended")
				}
				w.drop()
			})
		}
	}
}
