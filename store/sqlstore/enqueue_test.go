// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
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
			must.OK(t, err)
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
			if must.OK(t, err); st.Waiting != 1 {
				t.Fatalf("%d claims wait, want 1", st.Waiting)
			}
			away.Store(false)
			withdraw(t, ss, driver.Withdrawal{Seq: 1, Name: "x", Tombstone: true}, driver.WasQueued)
		})
	}
}

// TestHandoffWhateverTheRecords: claims are appended to the text of the queue, and the first is taken out of
// it, by one statement each, if the queue is known to be long or not. What looks like the text of a claim
// in a record is left alone.
func TestHandoffWhateverTheRecords(t *testing.T) {
	for _, k := range []kind{onMariaDB, onMySQL} {
		for _, place := range []int{0, 8} {
			t.Run(fmt.Sprintf("%s/place=%d", k.name, place), func(t *testing.T) {
				t.Parallel()
				server := need(t, k.start)
				direct := k.connect(t, server.Port)
				opts := k.space(t, direct)
				p := proxyOf(t, server)
				var long, slow atomic.Bool
				p.Filter(func(_ int, toServer bool, data []byte) bool {
					has := func(word string) bool { return toServer && bytes.Contains(data, []byte("fencelock "+word)) }
					if has("load") || has("write") {
						slow.Store(true)
					}
					if has("releaseLong") {
						long.Store(true)
					}
					return true
				})
				through := k.connect(t, p.Port)
				session := func(db *sql.DB, c *driver.Claim, want driver.State) driver.Session {
					s := k.store(t, db, &opts)
					ss := open(t, s)
					attempt(t, ss, c, want)
					sqlstore.SetPace(s, c.Name, place, time.Millisecond)
					return ss
				}
				for i, records := range [][]string{{""}, {`}]`, `"s": "x"}, {"s":"y"`, "名字 🔒 \\ '"}} {
					name := "odd" + strconv.Itoa(i)
					holder := session(through, plain(1, name), driver.Granted) // its store has prepared nothing else
					var next []driver.Session
					for _, text := range records {
						c := queued(1, name)
						c.Terms.Record = &driver.Record{Owner: text, Reason: text}
						next = append(next, session(direct, c, driver.Queued))
					}
					for j, ss := range next {
						withdraw(t, holder, driver.Withdrawal{Seq: 1, Name: name}, driver.WasGranted)
						st, err := k.store(t, direct, &opts).Inspect(ctxb, name)
						if must.OK(t, err); len(st.Holders) != 1 || st.Waiting != len(next)-j-1 ||
							st.Holders[0].Record.Owner != records[j] || st.Holders[0].Record.Reason != records[j] {
							t.Fatalf("after %d handoffs: %+v", j+1, st)
						}
						holder = ss
					}
				}
				if slow.Load() || long.Load() != (place > 0) {
					t.Errorf("the slow path: %t, the statement for long queues: %t", slow.Load(), long.Load())
				}
			})
		}
	}
}

// TestClaimInAQuickQueueIsQueuedByOneStatement: a claim learns its place and whom it waits for from the statement that
// queues it, whatever the records are.
func TestClaimInAQuickQueueIsQueuedByOneStatement(t *testing.T) {
	for _, k := range []kind{onMariaDB, onMySQL} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			server := need(t, k.start)
			direct := k.connect(t, server.Port)
			opts := k.space(t, direct)
			p := proxyOf(t, server)
			var reads atomic.Bool
			p.Filter(func(_ int, toServer bool, data []byte) bool {
				if toServer && bytes.Contains(data, []byte("fencelock load ")) {
					reads.Store(true)
				}
				return true
			})
			attempt(t, open(t, k.store(t, direct, &opts)), plain(1, "x"), driver.Granted)
			for i, text := range []string{"", "handoff", `handoff":"5}`, `"s":"handoff":7}`, "名字 🔒 \\ '"} {
				before := k.store(t, direct, &opts)
				makeHandoffLock(t, before)
				first := open(t, before)
				c := queued(1, "x")
				c.Terms.Record = &driver.Record{Owner: text, Reason: text}
				attempt(t, first, c, driver.Queued)

				s := k.store(t, k.connect(t, p.Port), &opts)
				makeHandoffLock(t, s)
				sqlstore.SetPace(s, "x", 1, time.Millisecond)
				sqlstore.SetHolders(s, "x", []driver.Holder{{Token: 1}})
				ss := open(t, s)
				reads.Store(false)
				out := attempt(t, ss, queued(1, "x"), driver.Queued)
				if waits, _ := sqlstore.WaitsFor(ss, 1); reads.Load() || out.Position != 2*i+1 || len(out.Holders) != 1 || waits != sqlstore.HandoffLockOf(first, 1) {
					t.Errorf("%q: read the row: %t; at %d, behind %v, waits for %q and not %q", text, reads.Load(), out.Position, out.Holders, waits, sqlstore.HandoffLockOf(first, 1))
				}
				c = queued(2, "x")
				sqlstore.SetHolders(s, "x", nil)
				if out := attempt(t, ss, c, driver.Queued); !reads.Load() || len(out.Holders) != 1 || out.Holders[0].Token == 1 {
					t.Errorf("%q: without a holder that is known: read the row: %t, behind %v", text, reads.Load(), out.Holders)
				}
				withdraw(t, ss, driver.Withdrawal{Seq: 2, Name: "x"}, driver.WasQueued)
			}
		})
	}
}
