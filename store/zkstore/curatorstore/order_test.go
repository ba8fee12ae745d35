// SPDX-License-Identifier: Apache-2.0

package curatorstore_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore/curatorstore"
)

// TestReaderUnderItsWriterIsFenced: Java acquires a read lock under its own write lock while a Go writer
// waits. Its node is younger than that of the waiter, and Inspect and Break show it before the waiter:
// the fence is above the token shown, and below that of the next holder.
func TestReaderUnderItsWriterIsFenced(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	store := open(t, e.Addrs(), curatorstore.Options{Root: "/pairs", Recipe: curatorstore.ReadWrite})
	locks, err := fencelock.New(store, &fencelock.Options{TTL: 20 * time.Second})
	must.OK(t, err)
	t.Cleanup(func() { _ = locks.Close(t.Context()) })
	writer := o.claim("/pairs/x", "__WRIT__", nil)
	_, stat, err := o.Get(writer)
	must.OK(t, err)
	got := locking(t, locks, "x")
	must.OK(t, servers.Await("the Go claim is queued", func() bool { return len(o.children("/pairs/x")) == 2 }))
	_, err = o.Create("/pairs/x/_c_f290140d-9856-42ad-b9bf-348ffc086062-__READ__"+writer[len(writer)-10:], nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	must.OK(t, err)
	st, err := store.Inspect(t.Context(), "x")
	must.OK(t, err)
	if len(st.Holders) != 2 || int64(st.Holders[0].Token) != stat.Czxid*512 || st.Holders[1].Token != st.Holders[0].Token {
		t.Errorf("a writer and its reader are shown as %+v, want the token %d for both", st.Holders, stat.Czxid*512)
	}
	must.OK(t, o.Delete(writer, -1))
	st, err = store.Inspect(t.Context(), "x")
	must.OK(t, err)
	if len(st.Holders) != 1 || st.Holders[0].Mode != driver.Shared || st.Waiting != 1 {
		t.Fatalf("Inspect shows %+v, want a reader and a waiter", st)
	}
	fence, err := store.Break(t.Context(), "x", st.Holders[0].Token)
	must.OK(t, err)
	l := granted(t, got)
	if old, next := st.Holders[0].Token, l.Token(); old >= fence || fence >= next || int64(old) < stat.Czxid*512 {
		t.Errorf("the reader has %v, the fence is %v, the next holder has %v; want them in this order, from %d", old, fence, next, stat.Czxid*512)
	}
	must.OK(t, l.Unlock(t.Context()))
}
