// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// pair is how servers of a kind are made to follow each other, asynchronously.
type pair struct {
	kind    kind
	primary func() (*servers.Server, error)
	// follow starts a replica of the server, by way of a port.
	follow  func(t *testing.T, primary *servers.Server, port int) *servers.Server
	promote func(t *testing.T, replica *servers.Server)
}

var pairs = []pair{
	{
		kind:    onPostgres,
		primary: func() (*servers.Server, error) { return servers.Postgres("wal_level=replica", "max_wal_senders=4") },
		follow: func(t *testing.T, primary *servers.Server, port int) *servers.Server {
			replica, err := primary.Replica(port)
			must.OK(t, err)
			return replica
		},
		promote: func(t *testing.T, replica *servers.Server) { must.OK(t, replica.Promote()) },
	},
	{
		// The binary log has the format that MariaDB comes with, MIXED.
		kind:    onMariaDB,
		primary: func() (*servers.Server, error) { return servers.MariaDB("server-id=1", "log-bin=bin") },
		follow: func(t *testing.T, _ *servers.Server, port int) *servers.Server {
			replica := need(t, func() (*servers.Server, error) { return servers.MariaDB("server-id=2", "log-bin=bin") })
			db := onMariaDB.connect(t, replica.Port)
			must.OK(t, exec(db, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %d, MASTER_USER = 'root', MASTER_USE_GTID = slave_pos", port)))
			must.OK(t, exec(db, "START SLAVE"))
			return replica
		},
		promote: func(t *testing.T, replica *servers.Server) {
			db := onMariaDB.connect(t, replica.Port)
			must.OK(t, exec(db, "STOP SLAVE"))
			must.OK(t, exec(db, "RESET SLAVE ALL"))
		},
	},
	{
		kind:    onMySQL,
		primary: func() (*servers.Server, error) { return servers.MySQL(replicated(1)...) },
		follow: func(t *testing.T, _ *servers.Server, port int) *servers.Server {
			replica := need(t, func() (*servers.Server, error) { return servers.MySQL(replicated(2)...) })
			db := onMySQL.connect(t, replica.Port)
			must.OK(t, exec(db, fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = %d, SOURCE_USER = 'root', SOURCE_AUTO_POSITION = 1", port)))
			must.OK(t, exec(db, "START REPLICA"))
			return replica
		},
		promote: func(t *testing.T, replica *servers.Server) {
			db := onMySQL.connect(t, replica.Port)
			must.OK(t, exec(db, "STOP REPLICA"))
			must.OK(t, exec(db, "RESET REPLICA ALL"))
		},
	},
}

// replicated are the settings of a MySQL server that others follow by the names of transactions.
func replicated(id int) []string {
	return []string{fmt.Sprintf("server-id=%d", id), "gtid-mode=ON", "enforce-gtid-consistency=ON"}
}

// arrived waits until a replica has a row.
func (p pair) arrived(t *testing.T, replica *servers.Server, rows string) {
	t.Helper()
	db := p.kind.connect(t, replica.Port)
	for end := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		n := 0
		err := db.QueryRow("SELECT count(*) FROM " + rows).Scan(&n)
		if n > 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the replica does not follow: no rows of %s, %v", rows, err)
		}
	}
}

// TestFailoverToALaggingReplica: a replica that never saw the grant takes over. Without
// grace a second holder is possible at once, with a higher token; with it the first puts
// its lease back and keeps it.
func TestFailoverToALaggingReplica(t *testing.T) {
	t.Parallel()
	for _, p := range pairs {
		for _, grace := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/grace=%t", p.kind.name, grace), func(t *testing.T) {
				t.Parallel()
				primary := need(t, p.primary)
				t.Cleanup(primary.Stop)
				k := p.kind
				k.opts = sqlstore.Options{Grace: grace, MaxTTL: 21 * time.Second}
				b := k.behind(t, primary)
				must.OK(t, visit(b))
				must.OK(t, exec(k.connect(t, primary.Port), "UPDATE "+b.opts.Prefix()+"incarnation SET grace_end = 0"))
				must.OK(t, lock(t, client(t, b, 20*time.Second), knownLock).Unlock(ctxb))
				stream, err := servers.NewProxy(primary.Addr)
				must.OK(t, err)
				t.Cleanup(stream.Close)
				replica := p.follow(t, primary, stream.Port)
				t.Cleanup(replica.Stop)
				p.arrived(t, replica, b.opts.Prefix()+"incarnation WHERE grace_end = 0")
				p.arrived(t, replica, b.opts.Prefix()+"lock")
				stream.Close() // it lags from here on
				p.lagging(t, b, primary, replica, grace)
			})
		}
	}
}

// knownLock has a row on the replica, from before it lags; newLock has none.
const knownLock, newLock = "known", "new"

func (p pair) lagging(t *testing.T, b *through, primary, replica *servers.Server, grace bool) {
	c := client(t, b, 20*time.Second)
	var held []*fencelock.Lease
	for _, name := range []string{knownLock, newLock} {
		for range 5 { // so that the replica would repeat tokens if it only counted on
			must.OK(t, lock(t, c, name).Unlock(ctxb))
		}
		held = append(held, lock(t, c, name))
	}
	primary.Kill()
	p.promote(t, replica)
	b.proxy.Retarget(replica.Addr)
	next := c
	if grace {
		for _, l := range held {
			putBack(t, b, l)
			// The session may still be putting the other lease back: then the unlock is not confirmed, and repeated.
			if err := l.Unlock(ctxb); err != nil && !errors.Is(err, fencelock.ErrUnavailable) {
				t.Fatal(err)
			}
		}
	} else {
		next = client(t, b, 20*time.Second)
	}
	for _, l := range held {
		if n := lock(t, next, l.Name()); n.Token() <= l.Token() {
			t.Errorf("%q: token %v after %v: the promoted replica repeats tokens", l.Name(), n.Token(), l.Token())
		}
	}
}

// putBack waits until the store has the lease again.
func putBack(t *testing.T, b *through, l *fencelock.Lease) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; <-time.After(100 * time.Millisecond) {
		st, err := inspectSoon(b, l.Name())
		must.OK(t, err)
		if len(st.Holders) == 1 && st.Holders[0].Token == l.Token() {
			return
		}
		if err := l.Err(); err != nil || time.Now().After(end) {
			t.Fatalf("%q was not put back: %v, holders %v", l.Name(), err, st.Holders)
		}
	}
}

// TestFailoverToAReplicaThatHasEverything: the lease goes on, and no other client gets the
// lock. Correctness may be required of a server with such a replica.
func TestFailoverToAReplicaThatHasEverything(t *testing.T) {
	t.Parallel()
	for _, p := range pairs {
		t.Run(p.kind.name, func(t *testing.T) {
			t.Parallel()
			primary := need(t, p.primary)
			t.Cleanup(primary.Stop)
			b := p.kind.behind(t, primary)
			replica := p.follow(t, primary, primary.Port)
			t.Cleanup(replica.Stop)
			p.upToDate(t, b, primary, replica)
		})
	}
}

func (p pair) upToDate(t *testing.T, b *through, primary, replica *servers.Server) {
	c, err := fencelock.New(b, &fencelock.Options{TTL: 50 * time.Second, StoreTimeout: time.Minute, Require: fencelock.Correctness}) // longer than a failover
	must.OK(t, err)
	t.Cleanup(func() { c.Close(ctxb) })
	l := lock(t, c, "x")
	old := open(t, b)
	attempt(t, old, plain(1, "used"), driver.Granted)
	withdraw(t, old, driver.Withdrawal{Seq: 1, Name: "used"}, driver.WasGranted)
	p.arrived(t, replica, b.opts.Prefix()+"lock WHERE holder IS NULL")
	primary.Kill()
	p.promote(t, replica)
	b.proxy.Retarget(replica.Addr)
	if took, err := takeSoon(old, "used"); err != nil || took {
		t.Errorf("a session of before was granted a lock before it was opened again: %t, %v", took, err)
	}
	st, err := inspectSoon(b, "x")
	if err != nil || len(st.Holders) != 1 || st.Holders[0].Token != l.Token() {
		t.Fatalf("after the failover the holders are %v, %v", st.Holders, err)
	}
	lock(t, c, "y") // by then it has found the new life, and opened its session again
	if _, err := client(t, b, 20*time.Second).Mutex("x").TryLock(ctxb); !errors.Is(err, fencelock.ErrBusy) {
		t.Errorf("trying a held lock: %v, want ErrBusy", err)
	}
	if err := l.Err(); err != nil {
		t.Fatalf("the lease was lost: %v", err)
	}
	must.OK(t, l.Unlock(ctxb))
	if next := lock(t, c, "x"); next.Token() <= l.Token() {
		t.Errorf("token %v after %v", next.Token(), l.Token())
	}
}

// takeSoon takes a lock by the flat statement when the server can be reached.
func takeSoon(ss driver.Session, name string) (took bool, err error) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		if took, err = sqlstore.Take(ss, name, 2); err == nil {
			return took, nil
		}
	}
	return false, err
}
