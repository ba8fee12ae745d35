// SPDX-License-Identifier: Apache-2.0

package concurrencystore_test

import (
	"reflect"
	"testing"

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
