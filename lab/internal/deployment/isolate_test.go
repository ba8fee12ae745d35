// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/server"
)

// TestIsolate: another server leads when the leader is cut off, and the old one hears of
// it only when the cut is over.
func TestIsolate(t *testing.T) {
	for _, tt := range []struct {
		e Deployment
		// follows reports whether a server knows a leader that is not itself.
		follows func(server.Server) bool
	}{
		{etcd, func(s server.Server) bool {
			st, err := status(context.Background(), s.(*server.Wrapped).Addr)
			return err == nil && st.Leader != 0 && st.Leader != st.Header.MemberId
		}},
		{zookeeper, func(s server.Server) bool { return s.(*server.ZooKeeper).Mode() == "follower" }},
	} {
		t.Run(tt.e.Name, func(t *testing.T) {
			r, err := tt.e.Start(2*time.Second, fault.Wants{})
			if err != nil && strings.Contains(err.Error(), "install") {
				t.Skip(err)
			}
			must.OK(t, err)
			defer r.Stop()
			old, err := r.Master()
			must.OK(t, err)
			r.Peers.Set(old, servers.State{DropRequests: true, DropReplies: true})
			until(t, "another server leads", func() bool {
				m, err := r.Master()
				return err == nil && m != old
			})
			if tt.follows(r.Servers[old]) {
				t.Error("the server that is cut off follows another one, so it hears it")
			}
			r.Peers.Set(old, servers.State{})
			until(t, "the old leader follows", func() bool { return tt.follows(r.Servers[old]) })
		})
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}
