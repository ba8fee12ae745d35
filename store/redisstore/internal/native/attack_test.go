// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// TestOutOfMemory: a server whose memory is full rejects the transaction as a whole, so that
// no ticket is left without its claim. A script may be executed, and then the claim is whole.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name())
	l.open("ann", time.Minute)
	first := l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
	full := func(bytes string) {
		must.OK(t, l.plain.ConfigSet(t.Context(), "maxmemory", bytes).Err())
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

// TestForeignKey: a key of another type in the place of a lock rejects both commands of the
// transaction, and takes no ticket from the next claim.
func TestForeignKey(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"", batched} {
		t.Run("suffix="+suffix, func(t *testing.T) {
			t.Parallel()
			testListsForeignKey(t, newListsIn(t, lists+"ForeignKey"+suffix))
		})
	}
}

func testListsForeignKey(t *testing.T, l *listScene) {
	l.open("ann", time.Minute)
	key := l.base + ":l:x"
	must.OK(t, l.plain.Set(t.Context(), key, "not a list", 0).Err())
	terms := &driver.Terms{Weight: 1, Record: &driver.Record{}}
	if out, err := l.on["ann"].Attempt(t.Context(), &driver.Claim{Seq: 1, Name: "x", Terms: terms, Queue: true}); err == nil {
		t.Errorf("a claim behind a key of another type is %v", out.State)
	}
	must.OK(t, l.plain.Del(t.Context(), key).Err())
	l.attempt("ann", 2, "x", driver.Terms{}, driver.Granted)
	if n := l.plain.LLen(t.Context(), key).Val(); n != 2 {
		t.Errorf("the list has %d elements", n)
	}
}

// TestForeignKeyFailsNoOther: a key of another type in the place of a lock fails no claim for
// another lock that is sent in the same batch, by plain commands or as a script.
func TestForeignKeyFailsNoOther(t *testing.T) {
	t.Parallel()
	for _, crowd := range []int{6, 64} { // more than a few are a script
		for _, lib := range libraries {
			t.Run(fmt.Sprint(lib.name, crowd), func(t *testing.T) {
				t.Parallel()
				to := login{Addr: redistest.Start(t).Addr}
				namespace := lists + "Foreign" + lazy
				store := lib.open(t, to, &native.Options{Namespace: namespace})
				s, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: store.Shard("x"), ID: driver.NewSessionID(), TTL: 30 * time.Second})
				must.OK(t, err)
				server := redis.NewClient(&redis.Options{Addr: to.Addr})
				defer server.Close()
				must.OK(t, server.Set(t.Context(), namespace+":{"+namespace+":0}:l:bad", "not a list", 0).Err())
				var all sync.WaitGroup
				for i := range crowd {
					all.Go(func() {
						for j := range 1000 / crowd {
							seq, name := uint64(1000*i+j), fmt.Sprint("good", i)
							if i%3 == 0 {
								name = "bad"
							}
							out, err := s.Attempt(t.Context(), &driver.Claim{Seq: seq, Name: name, Queue: true,
								Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
							if name == "bad" {
								continue
							}
							if err != nil || out.State != driver.Granted {
								t.Errorf("%s is %v, %v", name, out.State, err)
								return
							}
							if _, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: seq, Name: name}); err != nil {
								t.Errorf("the release of %s: %v", name, err)
								return
							}
						}
					})
				}
				all.Wait()
			})
		}
	}
}
