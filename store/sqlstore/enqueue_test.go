// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/servers"
	mysqldriver "github.com/go-sql-driver/mysql"
)

// TestFailureAfterQueuingIsUnknown: a claim is queued, and no connection can be made to read
// where it stands. A caller that took this for an attempt that did nothing would not withdraw
// the claim, and the lock would be granted to it. PostgreSQL needs no second statement.
func TestFailureAfterQueuingIsUnknown(t *testing.T) {
	for _, k := range []kind{onMariaDB, onMySQL} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			server := need(t, k.start)
			direct := k.connect(t, server.Port)
			opts := k.space(t, direct)
			others := k.store(t, direct, &opts)
			attempt(t, open(t, others), plain(1, "x"), driver.Granted)

			p, err := servers.NewProxy(server.Addr)
			must(t, err)
			t.Cleanup(p.Close)
			var away atomic.Bool
			p.Filter(func(_ int, toServer bool, data []byte) bool {
				if toServer && bytes.Contains(data, []byte(`{"s":"`)) { // it is being queued
					away.Store(true)
				}
				return true
			})
			network := "away" + k.name
			mysqldriver.RegisterDialContext(network, func(ctx context.Context, addr string) (net.Conn, error) {
				if away.Load() {
					return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
				}
				var d net.Dialer
				return d.DialContext(ctx, "tcp", addr)
			})
			t.Cleanup(func() { mysqldriver.DeregisterDialContext(network) })
			source := k.source
			k.source = func(port int) string { return strings.Replace(source(port), "@tcp(", "@"+network+"(", 1) }
			db := k.connect(t, p.Port)
			db.SetMaxIdleConns(-1) // each statement has its own connection
			ss := open(t, k.store(t, db, &opts))
			if out, err := ss.Attempt(ctxb, queued(1, "x")); !errors.Is(err, driver.ErrUnknown) {
				t.Errorf("got %+v, %v; want an unknown outcome", out, err)
			}
			st, err := others.Inspect(ctxb, "x")
			if must(t, err); st.Waiting != 1 {
				t.Fatalf("%d claims wait, want 1", st.Waiting)
			}
			away.Store(false)
			withdraw(t, ss, driver.Withdrawal{Seq: 1, Name: "x", Tombstone: true}, driver.WasQueued)
		})
	}
}
