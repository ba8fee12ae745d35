// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/sqlstore"
)

// TestFailoverToALaggingReplica: a replica that never saw the grant takes over. Without
// grace a second holder is possible at once, with a higher token; with it the first puts
// its lease back and keeps it.
func TestFailoverToALaggingReplica(t *testing.T) {
	for _, grace := range []bool{false, true} {
		name := "without grace"
		if grace {
			name = "with grace"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := need(t, func() (*servers.Server, error) { return servers.Postgres("wal_level=replica", "max_wal_senders=4") })
			t.Cleanup(primary.Stop)
			k := onPostgres
			k.opts = sqlstore.Options{Grace: grace, MaxTTL: 12 * time.Second}
			b := k.behind(t, primary)
			_, err := b.Inspect(ctxb, "x")
			must(t, err)
			must(t, exec(k.connect(t, primary.Port), "UPDATE "+b.opts.Prefix+"incarnation SET grace_end = 0"))
			stream, err := servers.NewProxy(primary.Addr)
			must(t, err)
			t.Cleanup(stream.Close)
			replica, err := primary.Replica(stream.Port)
			must(t, err)
			t.Cleanup(replica.Stop)
			stream.Close() // it lags from here on
			failover(t, b, primary, replica, grace)
		})
	}
}

func failover(t *testing.T, b *through, primary, replica *servers.Server, grace bool) {
	c := client(t, b, 11*time.Second)
	l := lock(t, c, "x")
	primary.Kill()
	must(t, replica.Promote())
	b.proxy.Retarget(replica.Addr)
	if !grace {
		next := lock(t, client(t, b, 11*time.Second), "x")
		if next.Token() <= l.Token() {
			t.Errorf("token %v after %v: the promoted replica repeats tokens", next.Token(), l.Token())
		}
		return
	}
	for end := time.Now().Add(time.Minute); ; {
		st, err := inspectSoon(t, b, "x")
		must(t, err)
		if len(st.Holders) == 1 && st.Holders[0].Token == driver.Token(l.Token()) {
			break
		}
		if err := l.Err(); err != nil || time.Now().After(end) {
			t.Fatalf("the lease was not put back: %v, holders %v", err, st.Holders)
		}
		<-time.After(100 * time.Millisecond)
	}
	must(t, l.Unlock(ctxb))
	if next := lock(t, c, "x"); next.Token() <= l.Token() {
		t.Errorf("token %v after %v", next.Token(), l.Token())
	}
}
