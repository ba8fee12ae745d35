// SPDX-License-Identifier: Apache-2.0

package curatorstore_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore/curatorstore"
)

// mustBreak waits until a holder is notified that its lock was broken.
func mustBreak(t *testing.T, l *fencelock.Lease) {
	t.Helper()
	select {
	case <-l.Context().Done():
	case <-time.After(patience / 2): // soon enough for the mutants, which have a minute
		t.Fatal("the holder was not notified")
	}
	if err := context.Cause(l.Context()); !errors.Is(err, fencelock.LossForceUnlock) {
		t.Errorf("the lease ended with %v, want LossForceUnlock", err)
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
				must.OK(t, err)
			}
			must.OK(t, o.Delete(node, -1))
		},
		// The watch has reported the data when the node goes, and there is no time to set another one.
		"together": func(node string) {
			_, err := o.Multi(&zk.SetDataRequest{Path: node, Data: []byte("__REVOKE__"), Version: -1}, &zk.DeleteRequest{Path: node, Version: -1})
			must.OK(t, err)
		},
	} {
		l := lock(t, locks, name)
		revoke(o.only("/owned/" + name))
		mustBreak(t, l)
	}
}

// TestDowngradeWithALostReplyIsWatched: the reply to a downgrade is lost. The node that replaced the
// writer's is watched like any other, so its deletion is reported.
func TestDowngradeWithALostReplyIsWatched(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	proxy := through(t, e.Addrs()[0])
	locks := client(t, []string{proxy.Addr}, curatorstore.Options{Root: "/downgraded", Recipe: curatorstore.ReadWrite}, 5*time.Second)
	m := locks.RWMutex("x")
	for _, loses := range []bool{false, true} {
		l, err := m.Lock(t.Context())
		must.OK(t, err)
		if loses {
			lost := proxy.LoseReplyTo("-__READ__")
			lost.Start()
			defer func() {
				if !lost.Done() {
					t.Error("no reply was lost")
				}
			}()
		}
		must.OK(t, m.Downgrade(t.Context(), l))
		must.OK(t, l.Err())
		names := o.children("/downgraded/x")
		if len(names) != 1 {
			t.Fatalf("after the downgrade there are %v", names)
		}
		must.OK(t, o.Delete("/downgraded/x/"+names[0], -1))
		mustBreak(t, l)
	}
}

// TestDowngradeOfUnknownOutcomeIsFoundOut: the reply to a downgrade is lost, and the caller does not wait
// any longer. A deletion of the claim's node is reported, and a withdrawal removes the node as ever.
func TestDowngradeOfUnknownOutcomeIsFoundOut(t *testing.T) {
	t.Parallel()
	e := shared(t)
	o := join(t, e.Addrs())
	for name, deletes := range map[string]bool{"deleted": true, "kept": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := through(t, e.Addrs()[0])
			s := session(t, open(t, []string{proxy.Addr}, curatorstore.Options{Root: "/unknown", Recipe: curatorstore.ReadWrite}))
			out, err := s.Attempt(t.Context(), queued(name))
			if err != nil || out.State != driver.Granted {
				t.Fatal(out, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var asked, lost atomic.Bool
			proxy.Filter(func(_ int, toServer bool, data []byte) bool {
				if toServer && bytes.Contains(data, []byte("-__READ__")) {
					asked.Store(true)
				}
				if toServer || !asked.Load() || !lost.CompareAndSwap(false, true) {
					return true
				}
				cancel()
				return false
			})
			reader := queued(name)
			reader.Terms.Mode = driver.Shared
			if out, err := s.Attempt(ctx, reader); !errors.Is(err, driver.ErrUnknown) {
				t.Fatalf("the downgrade returned %v, %v", out, err)
			}
			must.OK(t, servers.Await("that the downgrade is done", func() bool {
				names := o.children("/unknown/" + name)
				return len(names) == 1 && strings.Contains(names[0], "-__READ__")
			}))
			want := driver.WasGranted
			if deletes {
				want = driver.WasBroken
				must.OK(t, o.Delete(o.only("/unknown/"+name), -1))
				must.OK(t, servers.Await("that the deletion is reported", func() bool {
					r, err := s.KeepAlive(t.Context())
					return err == nil && slices.Contains(r.Broken, 1)
				}))
			}
			var found driver.Removed
			must.OK(t, servers.Await("that a server is reached", func() bool {
				found, err = s.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: name})
				return err == nil
			}))
			if names := o.children("/unknown/" + name); found != want || len(names) > 0 {
				t.Errorf("the withdrawal found %v, want %v; left are %v", found, want, names)
			}
		})
	}
}
