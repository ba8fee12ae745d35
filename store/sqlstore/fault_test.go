// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

var ctxb = context.Background()

// through is a store whose connections go through a proxy.
type through struct {
	*sqlstore.Store
	proxy *servers.Proxy
	opts  sqlstore.Options
}

// behind returns a store on new tables, through a proxy.
func (k kind) behind(t *testing.T, server *servers.Server) *through {
	t.Helper()
	p, err := servers.NewProxy(server.Addr)
	must.OK(t, err)
	t.Cleanup(p.Close)
	opts := k.space(t, k.connect(t, server.Port))
	return &through{k.store(t, k.connect(t, p.Port), &opts), p, opts}
}

// client returns a new client on a store.
func client(t *testing.T, s driver.Store, ttl time.Duration) *fencelock.Client {
	t.Helper()
	c, err := fencelock.New(s, &fencelock.Options{TTL: ttl, StoreTimeout: time.Minute})
	must.OK(t, err)
	t.Cleanup(func() { c.Close(ctxb) })
	return c
}

func lock(t *testing.T, c *fencelock.Client, name string) *fencelock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctxb, 3*time.Minute)
	defer cancel()
	l, err := c.Mutex(name).Lock(ctx)
	must.OK(t, err)
	return l
}

// everywhere runs a test on PostgreSQL, on MariaDB and, where MYSQLD names it, on MySQL.
func everywhere(t *testing.T, f func(t *testing.T, k kind, server *servers.Server)) {
	for _, k := range []kind{onPostgres, onMariaDB, onMySQL} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			f(t, k, need(t, k.start))
		})
	}
}

// alone runs a test on dedicated servers, which it may stop, beside other tests.
func alone(t *testing.T, f func(t *testing.T, k kind, server *servers.Server)) {
	t.Parallel()
	for _, k := range []kind{onPostgres, onMariaDB, onMySQL} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			k.start = map[string]func() (*servers.Server, error){
				// A crash loses as much as it can: commits that do not wait for the disk are written late.
				"postgres": func() (*servers.Server, error) { return servers.Postgres("wal_writer_delay=10000") },
				"mariadb":  func() (*servers.Server, error) { return servers.MariaDB() },
				"mysql":    func() (*servers.Server, error) { return servers.MySQL() },
			}[k.name]
			server := need(t, k.start)
			t.Cleanup(server.Stop)
			f(t, k, server)
		})
	}
}

// TestServerPausedBeyondTheTTL: the holder is notified in time, and after the pause the
// lock can be acquired, with a higher token.
func TestServerPausedBeyondTheTTL(t *testing.T) {
	alone(t, func(t *testing.T, k kind, server *servers.Server) {
		const ttl = 8 * time.Second
		b := k.behind(t, server)
		first := client(t, b, ttl)
		l := lock(t, first, "x")
		resume := server.Pause()
		select {
		case <-l.Context().Done():
		case <-time.After(time.Minute):
			t.Error("the holder was not notified")
		}
		if cause := context.Cause(l.Context()); !errors.Is(cause, fencelock.ErrLost) {
			t.Errorf("the cause is %v, want ErrLost", cause)
		}
		// Until the session has ended for the server too.
		<-time.After(ttl)
		resume()
		next := lock(t, client(t, k.store(t, k.connect(t, server.Port), &b.opts), ttl), "x")
		if next.Token() <= l.Token() {
			t.Errorf("token %v after %v", next.Token(), l.Token())
		}
	})
}

// TestServerRestartsAfterACrash: what was acknowledged is still there.
func TestServerRestartsAfterACrash(t *testing.T) {
	alone(t, func(t *testing.T, k kind, server *servers.Server) {
		b := k.behind(t, server)
		c := client(t, b, 50*time.Second)
		l := lock(t, c, "x")
		other := lock(t, c, "y")
		must.OK(t, other.Unlock(ctxb))
		must.OK(t, server.Restart())
		st, err := inspectSoon(b, "x")
		must.OK(t, err)
		if len(st.Holders) != 1 || st.Holders[0].Token != l.Token() {
			t.Errorf("after the restart the holders are %v, want the one with token %v", st.Holders, l.Token())
		}
		must.OK(t, l.Unlock(ctxb))
		if again := lock(t, c, "y"); again.Token() <= other.Token() {
			t.Errorf("token %v after %v", again.Token(), other.Token())
		}
		if l.Err() == nil {
			t.Error("the unlocked lease has no error")
		}
	})
}

// inspectSoon asks until the server answers.
func inspectSoon(s driver.Store, name string) (st driver.Status, err error) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(ctxb, 5*time.Second)
		st, err = s.Inspect(ctx, name)
		cancel()
		if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrUnknown) {
			return st, err
		}
	}
	return st, err
}

// TestConnectionsAreCut: whatever happens to the connections, holders do not overlap,
// tokens rise, and nothing is left behind.
func TestConnectionsAreCut(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		const workers, turns = 6, 25
		ctx, cancel := context.WithTimeout(ctxb, 4*time.Minute)
		defer cancel()
		b := k.behind(t, server)
		var inside, done atomic.Int64
		var last fencelock.Token // guarded by the lock being tested
		var wg sync.WaitGroup
		for range workers {
			c := client(t, k.store(t, k.connect(t, b.proxy.Port), &b.opts), 20*time.Second)
			wg.Go(func() {
				for ran := 0; ran < turns && ctx.Err() == nil; {
					err := c.Do(ctx, "x", func(_ context.Context, l *fencelock.Lease) error {
						ran++ // a slow machine may need more than the patience of the client
						if inside.Add(1) != 1 {
							t.Error("two holders at a time")
						}
						if l.Token() <= last {
							t.Errorf("token %v after %v", l.Token(), last)
						}
						last = l.Token()
						if done.Add(1)%7 == 0 {
							b.proxy.Cut()
						}
						inside.Add(-1)
						return nil
					})
					if err != nil && !errors.Is(err, fencelock.ErrUnavailable) {
						t.Errorf("turn: %v", err)
					}
				}
			})
		}
		wg.Wait()
		if done.Load() != workers*turns {
			t.Errorf("%d turns, want %d", done.Load(), workers*turns)
		}
	})
}

// TestLostReply: the statement is done, its answer is lost. That is an unknown outcome,
// and the same claim finds what became of it.
func TestLostReply(t *testing.T) {
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		const word = "the-lost-one"
		b := k.behind(t, server)
		ss, _, err := b.Open(ctxb, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: time.Minute})
		must.OK(t, err)
		claim := func(seq uint64) *driver.Claim {
			return &driver.Claim{Seq: seq, Name: word, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
		}
		warm, err := ss.Attempt(ctxb, claim(1)) // what is prepared is prepared now
		must.OK(t, err)
		_, err = ss.Withdraw(ctxb, driver.Withdrawal{Seq: 1, Name: word})
		must.OK(t, err)

		b.loseReply(word)
		if _, err := ss.Attempt(ctxb, claim(2)); !errors.Is(err, driver.ErrUnknown) {
			t.Fatalf("an attempt whose answer is lost: %v, want ErrUnknown", err)
		}
		out, err := ss.Attempt(ctxb, claim(2))
		must.OK(t, err)
		if out.State != driver.Granted || out.Token != warm.Token+driver.TokenStep {
			t.Errorf("asked again: %v with token %v, want the grant of the first time, token %v", out.State, out.Token, warm.Token+driver.TokenStep)
		}
		b.loseReply(word)
		if _, err := ss.Withdraw(ctxb, driver.Withdrawal{Seq: 2, Name: word}); !errors.Is(err, driver.ErrUnknown) {
			t.Fatalf("a withdrawal whose answer is lost: %v, want ErrUnknown", err)
		}
		found, err := ss.Withdraw(ctxb, driver.Withdrawal{Seq: 2, Name: word})
		must.OK(t, err)
		if found != driver.WasAbsent {
			t.Errorf("withdrawn again it was %v, want absent: the first did it", found)
		}
	})
}

// loseReply lets the next request that holds the word through, and cuts its connection
// before the answer.
func (b *through) loseReply(word string) {
	var mu sync.Mutex
	asked := 0 // the connection
	lost := false
	b.proxy.Filter(func(conn int, toServer bool, data []byte) bool {
		mu.Lock()
		defer mu.Unlock()
		if lost {
			return true
		}
		if toServer && asked == 0 && bytes.Contains(data, []byte(word)) {
			asked = conn
		}
		lost = !toServer && conn == asked
		return !lost
	})
}
