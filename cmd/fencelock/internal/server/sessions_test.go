// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/leases"
	"github.com/fencelock/fencelock/driver"
)

// TestSessionsShowEachClientOfAServer: clients of the lock API are rows of the sessions, each under its own name, though they share the session
// of their server; the locks of one client are in one row.
func TestSessionsShowEachClientOfAServer(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, store driver.Store) {
		ls := newLockers(t, store, 1)
		ann, bob := ls.client("ann", 6*time.Second), ls.client("bob", 6*time.Second)
		a := ann.want(leases.Held, "1", "x", 0)
		y := ann.want(leases.Held, "2", "y", 0)
		b := bob.want(leases.Held, "1", "z", 0)
		bob.want(leases.Waiting, "2", "x", time.Millisecond)
		w := ls.servers[0]
		sessions := func(text string) (l sessionList) {
			w.get("/v1/sessions?text="+text, &l, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+ls.tokens["ann"]) })
			return l
		}
		w.until("both clients are listed", func() bool {
			ann.renew(a, 0)
			ann.renew(y, 0)
			bob.renew(b, 0)
			l := sessions("")
			return l.Total == 2 && l.Sessions[0].Waits == 1 && l.Sessions[1].Held == 2
		})
		for text, want := range map[string]string{"ann": "ann:test [x y] []", "bob": "bob:test [z] [x]", "eve": ""} {
			got := ""
			for _, s := range sessions(text).Sessions {
				got += fmt.Sprint(s.Owner, " ", s.Holds, " ", s.WaitsFor)
			}
			if got != want {
				t.Errorf("text=%s: got %q, want %q", text, got, want)
			}
		}
	})
}
