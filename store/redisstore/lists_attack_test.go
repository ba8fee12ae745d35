// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// TestListsOutOfMemory: a server whose memory is full rejects the transaction as a whole, so that
// no ticket is left without its claim. A script may be executed, and then the claim is whole.
func TestListsOutOfMemory(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name())
	l.open("ann", 30*time.Second)
	first := l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
	full := func(bytes string) {
		if err := l.plain.ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
	}
	full("1")
	terms := &driver.Terms{Weight: 1, Record: &driver.Record{}}
	out, err := l.on["ann"].Attempt(t.Context(), &driver.Claim{Seq: 2, Name: "y", Terms: terms, Queue: true})
	want := int64(0)
	if err == nil && out.State == driver.Granted {
		want = 2
	}
	if n := l.plain.LLen(t.Context(), l.base+":l:y").Val(); n != want {
		t.Errorf("the claim is %v, %v, and its list has %d elements", out.State, err, n)
	}
	if found, err := l.on["ann"].Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"}); err != nil || found != driver.WasGranted {
		t.Errorf("the release is %v, %v", found, err)
	}
	full("0")
	if keys := l.keys(); slices.Contains(keys, ":l:x") {
		t.Errorf("the keys are %q", keys)
	}
	if second := l.attempt("ann", 3, "x", driver.Terms{}, driver.Granted); second <= first {
		t.Errorf("token %v after %v", second, first)
	}
}

// TestListsForeignKey: a key of another type in the place of a lock rejects both commands of the
// transaction, and takes no ticket from the next claim.
func TestListsForeignKey(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"", batched} {
		t.Run("suffix="+suffix, func(t *testing.T) {
			t.Parallel()
			testListsForeignKey(t, newListsIn(t, lists+"ForeignKey"+suffix))
		})
	}
}

func testListsForeignKey(t *testing.T, l *listScene) {
	l.open("ann", 30*time.Second)
	key := l.base + ":l:x"
	if err := l.plain.Set(t.Context(), key, "not a list", 0).Err(); err != nil {
		t.Fatal(err)
	}
	terms := &driver.Terms{Weight: 1, Record: &driver.Record{}}
	if out, err := l.on["ann"].Attempt(t.Context(), &driver.Claim{Seq: 1, Name: "x", Terms: terms, Queue: true}); err == nil {
		t.Errorf("a claim behind a key of another type is %v", out.State)
	}
	if err := l.plain.Del(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}
	l.attempt("ann", 2, "x", driver.Terms{}, driver.Granted)
	if n := l.plain.LLen(t.Context(), key).Val(); n != 2 {
		t.Errorf("the list has %d elements", n)
	}
}
