// SPDX-License-Identifier: Apache-2.0

package curatorstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore/curatorstore"
)

// mustBreak waits until a holder is notified that its lock was broken.
func mustBreak(t *testing.T, l *fencelock.Lease) {
	t.Helper()
	select {
	case <-l.Context().Done():
	case <-time.After(patience):
		t.Fatal("the holder was not notified")
	}
	if err := context.Cause(l.Context()); !errors.Is(err, fencelock.ErrBroken) {
		t.Errorf("the lease ended with %v, want ErrBroken", err)
	}
}

// TestDeletionAfterARevocationIsReported: a watch reports one change. Data that is written to a holder's
// node, as Revoker.attemptRevoke does, must not hide that the node is deleted later.
func TestDeletionAfterARevocationIsReported(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	locks := client(t, e.Addrs(), curatorstore.Options{Root: "/owned"}, 5*time.Second)
	for name, revoke := range map[string]func(node string){
		"before": func(node string) {
			for range 3 {
				_, err := o.Set(node, []byte("__REVOKE__"), -1)
				must(t, err)
			}
			must(t, o.Delete(node, -1))
		},
		// The watch has reported the data when the node goes, and there is no time to set another one.
		"together": func(node string) {
			_, err := o.Multi(&zk.SetDataRequest{Path: node, Data: []byte("__REVOKE__"), Version: -1}, &zk.DeleteRequest{Path: node, Version: -1})
			must(t, err)
		},
	} {
		l := lock(t, locks, name)
		revoke("/owned/" + name + "/" + o.children("/owned/" + name)[0])
		mustBreak(t, l)
	}
}

// TestDowngradeWithALostReplyIsWatched: the reply to a downgrade is lost. The node that replaced the
// writer's is watched like any other, so its deletion is reported.
func TestDowngradeWithALostReplyIsWatched(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	proxy, err := servers.NewProxy(e.Addrs()[0])
	must(t, err)
	t.Cleanup(proxy.Close)
	locks := client(t, []string{proxy.Addr}, curatorstore.Options{Root: "/downgraded", Recipe: curatorstore.ReadWrite}, 5*time.Second)
	m := locks.RWMutex("x")
	for _, loses := range []bool{false, true} {
		l, err := m.Lock(t.Context())
		must(t, err)
		if loses {
			lost := proxy.LoseReplyTo("-__READ__")
			lost.Start()
			defer func() {
				if !lost.Done() {
					t.Error("no reply was lost")
				}
			}()
		}
		must(t, m.Downgrade(t.Context(), l))
		must(t, l.Err())
		names := o.children("/downgraded/x")
		if len(names) != 1 {
			t.Fatalf("after the downgrade there are %v", names)
		}
		must(t, o.Delete("/downgraded/x/"+names[0], -1))
		mustBreak(t, l)
	}
}
