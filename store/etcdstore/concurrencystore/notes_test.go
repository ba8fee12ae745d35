// SPDX-License-Identifier: Apache-2.0

package concurrencystore_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
)

// sizeOf is the size of a map in a value, by the names of the fields that lead to it: what grows in a process is seen nowhere else.
func sizeOf(value any, fields ...string) int {
	v := reflect.ValueOf(value)
	for _, name := range fields {
		v = reflect.Indirect(v).FieldByName(name)
	}
	return v.Len()
}

// TestWithdrawnClaimsAreNotNoted: an Open that was sent twice resumes a session without claims, and no Reclaim follows.
func TestWithdrawnClaimsAreNotNoted(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	store, id := storeOf(t, cluster.Connect(t)), driver.NewSessionID()
	open(t, store, id)
	ses := open(t, store, id)
	attempt(t, ses, claim(1, "a"), driver.Granted)
	for seq := range uint64(3) {
		attempt(t, ses, claim(seq+2, "b"), driver.Granted)
		withdraw(t, ses, driver.Withdrawal{Seq: seq + 2, Name: "b"}, driver.WasGranted)
	}
	if n := sizeOf(ses, "claims", "touched"); n != 1 {
		t.Errorf("%d claims are noted, want the one that is held", n)
	}
}

// TestFailedOpenIsNotNoted: the session was opened and its handle cannot be written. Nothing in the process refers to it, and it can be
// opened again.
func TestFailedOpenIsNotNoted(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, servers.QuickEtcd...)
	w, id := &wire{}, driver.NewSessionID()
	store := storeOf(t, w.connect(t, cluster))
	w.set(func(ctx context.Context, c call, do func(context.Context) error) error {
		if c.writes("handle|", false) {
			return errBusy
		}
		return do(ctx)
	})
	_, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: id, TTL: 30 * time.Second})
	if !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("the open: %v", err)
	}
	w.set(nil)
	ses := open(t, store, id)
	attempt(t, ses, claim(1, "a"), driver.Granted)
}
