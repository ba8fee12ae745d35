// SPDX-License-Identifier: Apache-2.0

package concurrencystore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/status"
)

// instead does something instead of reading which keys a lease has.
func (w *wire) instead(do func(ctx context.Context) error) {
	w.set(func(ctx context.Context, c call, send func(context.Context) error) error {
		if c.method == "LeaseTimeToLive" {
			return do(ctx)
		}
		return send(ctx)
	})
}

// TestRenewalCountsAlthoughKeysCannotBeRead: the lease was kept alive. If the keys cannot be read for long, that is an error.
func TestRenewalCountsAlthoughKeysCannotBeRead(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	w := &wire{}
	ses := open(t, storeOf(t, w.connect(t, cluster)), driver.NewSessionID())
	attempt(t, ses, claim(1, "a"), driver.Granted)
	for range 2 { // a renewal that reads the keys begins the count again
		w.instead(func(context.Context) error { return errBusy })
		for range 2 {
			renewal, err := ses.KeepAlive(t.Context())
			if err != nil || renewal.TTL != 30*time.Second || len(renewal.Broken) > 0 {
				t.Errorf("the renewal: %+v, %v", renewal, err)
			}
		}
		if renewal, err := ses.KeepAlive(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("the third renewal in a row: %+v, %v; want ErrUnavailable", renewal, err)
		}
		w.set(nil)
		_, err := ses.KeepAlive(t.Context())
		must.OK(t, err)
	}
	w.instead(func(context.Context) error { return errBusy })
	_, err := cluster.Connect(t).Delete(t.Context(), prefix+"a/", clientv3.WithPrefix())
	must.OK(t, err)
	_, err = ses.KeepAlive(t.Context())
	must.OK(t, err)
	w.set(nil)
	if renewal, err := ses.KeepAlive(t.Context()); err != nil || len(renewal.Broken) != 1 {
		t.Errorf("the renewal after the keys could be read again: %+v, %v; want claim 1 as broken", renewal, err)
	}
}

// TestRenewalIsInTimeAlthoughKeysAreNotRead: the read of the keys gets no answer, and the caller has the renewal before its time is over.
func TestRenewalIsInTimeAlthoughKeysAreNotRead(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	w := &wire{}
	ses := open(t, storeOf(t, w.connect(t, cluster)), driver.NewSessionID())
	attempt(t, ses, claim(1, "a"), driver.Granted)
	w.instead(func(ctx context.Context) error { <-ctx.Done(); return status.FromContextError(ctx.Err()).Err() })
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	renewal, err := ses.KeepAlive(ctx)
	if err != nil || renewal.TTL != 30*time.Second || ctx.Err() != nil {
		t.Errorf("the renewal: %+v, %v; its time: %v", renewal, err, ctx.Err())
	}
}
