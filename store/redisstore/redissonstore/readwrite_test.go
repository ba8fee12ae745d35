// SPDX-License-Identifier: Apache-2.0

package redissonstore_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/store/redisstore/redissonstore"
)

var readWrite = &redissonstore.Options{ReadWrite: true}

// shared is a claim of a reader.
func shared(seq uint64, name string) *driver.Claim {
	c := claim(seq, name)
	c.Terms.Mode = driver.Shared
	return c
}

// TestReadersAndWritersAreWoken: a poll would come after two thirds of the TTL or more.
func TestReadersAndWritersAreWoken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := newClient(t, newStore(t, server, readWrite)).RWMutex("x"), newClient(t, newStore(t, server, readWrite)).RWMutex("x")
	unlock := func(l *fencelock.Lease) error { return l.Unlock(t.Context()) }
	for i := range 6 {
		for name, scene := range map[string]struct {
			hold, wait func(context.Context) (*fencelock.Lease, error)
			free       func(*fencelock.Lease) error
		}{
			"a writer for a writer":         {a.Lock, b.Lock, unlock},
			"a writer for a reader":         {a.RLock, b.Lock, unlock},
			"a reader for a writer":         {a.Lock, b.RLock, unlock},
			"a reader for a downgraded one": {a.Lock, b.RLock, func(l *fencelock.Lease) error { return a.Downgrade(t.Context(), l) }},
		} {
			held, err := scene.hold(t.Context())
			must.OK(t, err)
			before := scripts(t, server)
			got := waiting(t, scene.wait)
			if i%2 == 0 {
				waits(t, server, before)
			}
			must.OK(t, scene.free(held))
			t.Log(name)
			woken(t, got, redissonstore.MaxReadWriteTTL/2)
			_ = held.Unlock(t.Context())
		}
	}
}

// TestReaderThatLeavesDropsOnlyTheDead: the hash lasts as long as the longest hold of the others.
// Redisson decides in the same way, so a reader without its key is dropped by either side.
func TestReaderThatLeavesDropsOnlyTheDead(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, _ := open(t, newStore(t, server, readWrite))
	java := func(n int) {
		must.OK(t, server.Do("HSET", "x", fmt.Sprint("java:", n), "2").Err())
		must.OK(t, server.Do("SET", fmt.Sprintf("{x}:java:%d:rwlock_timeout:2", n), "1", "PX", 20_000).Err())
	}
	leave := func(seq uint64) {
		t.Helper()
		found, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: seq, Name: "x"})
		must.OK(t, err)
		if found != driver.WasGranted {
			t.Errorf("reader %d was %v", seq, found)
		}
	}
	attempt(t, s, shared(1, "x"), driver.Granted)
	java(1) // a live one, with a second hold
	leave(1)
	if left, err := server.Do("PTTL", "x").Int(); err != nil || left <= 0 || left > 20_000 {
		t.Errorf("beside a live reader the lock lasts %d ms, %v", left, err)
	}
	attempt(t, s, shared(2, "x"), driver.Granted)
	must.OK(t, server.Do("DEL", "{x}:java:1:rwlock_timeout:2").Err())
	leave(2)
	if n, err := server.Do("EXISTS", "x", "{x}:"+"rwlock_timeout").Int(); err != nil || n != 0 {
		t.Errorf("a dead reader kept the lock, %v", err)
	}
}

// TestManyReadersAreReadInPart: a reader that leaves, and a writer that is refused, do not go over all readers: the server
// would stand still for as long.
func TestManyReadersAreReadInPart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, _ := open(t, newStore(t, server, readWrite))
	attempt(t, s, shared(1, "x"), driver.Granted)
	const readers = 1000
	for i := range readers {
		must.OK(t, server.Do("HSET", "x", fmt.Sprint("java:", i), "1").Err())
		if i >= readers/2 { // the others are dead
			must.OK(t, server.Do("SET", fmt.Sprintf("{x}:java:%d:rwlock_timeout:1", i), "1", "PX", 60_000).Err())
		}
	}
	calls := func() (n int) {
		t.Helper()
		text, err := server.Do("INFO", "commandstats").Text()
		must.OK(t, err)
		for _, m := range regexp.MustCompile(`cmdstat_(?:pttl|hget|hgetall):calls=(\d+)`).FindAllStringSubmatch(text, -1) {
			more, err := strconv.Atoi(m[1])
			must.OK(t, err)
			n += more
		}
		return n
	}
	before := calls()
	out, err := s.Attempt(t.Context(), claim(2, "x"))
	must.OK(t, err)
	if out.State == driver.Granted || len(out.Holders) == 0 {
		t.Errorf("a writer beside readers is %v, behind %v", out.State, out.Holders)
	}
	if _, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"}); err != nil {
		t.Error(err)
	}
	if n := calls() - before; n > readers/2 {
		t.Errorf("%d reads for %d readers", n, readers)
	}
	if left, err := server.Do("PTTL", "x").Int(); err != nil || left <= 0 {
		t.Errorf("the lock of the others has %d ms left, %v", left, err)
	}
	for i := range readers { // the last one that leaves beside dead readers frees the lock
		must.OK(t, server.Do("DEL", fmt.Sprintf("{x}:java:%d:rwlock_timeout:1", i)).Err())
	}
	attempt(t, s, shared(3, "x"), driver.Granted)
	if _, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: 3, Name: "x"}); err != nil {
		t.Error(err)
	}
	if n, err := server.Do("EXISTS", "x").Int(); err != nil || n != 0 {
		t.Errorf("dead readers kept the lock, %v", err)
	}
}

// TestRenewalKeepsTheHoldOfAReader: the key of the hold, not only the hash.
func TestRenewalKeepsTheHoldOfAReader(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, _ := open(t, newStore(t, server, readWrite))
	attempt(t, s, shared(1, "x"), driver.Granted)
	attempt(t, s, claim(2, "y"), driver.Granted)
	holds := func() []string {
		keys, err := server.Do("KEYS", "{x}:*:rwlock_timeout:1").StringSlice()
		must.OK(t, err)
		return keys
	}
	hold := holds()
	if len(hold) != 1 {
		t.Fatalf("the keys of holds are %v", hold)
	}
	for _, key := range []string{"x", "y", hold[0]} {
		must.OK(t, server.Do("PEXPIRE", key, 10_000).Err())
	}
	must.OK(t, server.Do("DEL", hold[0]).Err()) // as if it had lapsed
	_, err := s.KeepAlive(t.Context())
	must.OK(t, err)
	for _, key := range []string{"x", "y", hold[0]} {
		if left, err := server.Do("PTTL", key).Int(); err != nil || left <= 10_000 {
			t.Errorf("%s was not renewed: %d ms left, %v", key, left, err)
		}
	}
	must.OK(t, s.Close(t.Context()))
	if keys, err := server.Do("KEYS", "*").StringSlice(); err != nil || len(keys) > 0 {
		t.Errorf("left are %v, %v", keys, err)
	}
}

// TestReadWriteTTLIsBoundedByTheWatchdog: the watchdog of a Java reader shortens the lease of a Go reader.
func TestReadWriteTTLIsBoundedByTheWatchdog(t *testing.T) {
	t.Parallel()
	store := newStore(t, redistest.Start(t), readWrite)
	const watchdog = 30 * time.Second
	if got := store.Caps().MaxTTL; got != watchdog {
		t.Errorf("the longest TTL is %v", got)
	}
	_, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: watchdog + time.Millisecond})
	if !errors.Is(err, driver.ErrRefused) {
		t.Errorf("a longer one: %v", err)
	}
	if _, err := fencelock.New(store, &fencelock.Options{TTL: watchdog + time.Millisecond}); err == nil {
		t.Error("a client with a longer one is accepted")
	}
}

// TestReadWriteRefusals: what an RReadWriteLock has not got.
func TestReadWriteRefusals(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locks := newClient(t, newStore(t, server, readWrite))
	plain := newClient(t, newStore(t, server, nil))
	must.OK(t, server.Do("HSET", "rlock", "java:1", "1").Err())
	for what, lock := range map[string]func() (*fencelock.Lease, error){
		"semaphores": func() (*fencelock.Lease, error) { return locks.Semaphore("s", 2).Acquire(t.Context(), 1) },
		"MaxHold": func() (*fencelock.Lease, error) {
			return locks.Mutex("m", fencelock.MaxHold(time.Second)).Lock(t.Context())
		},
		"a RLock": func() (*fencelock.Lease, error) { return locks.RWMutex("rlock").RLock(t.Context()) },
		"shared":  func() (*fencelock.Lease, error) { return plain.RWMutex("r").RLock(t.Context()) },
		"ReentrantAs": func() (*fencelock.Lease, error) {
			return plain.Mutex("e", fencelock.ReentrantAs("me")).Lock(t.Context())
		},
	} {
		_, err := lock()
		if err == nil || !strings.Contains(err.Error(), what) || !errors.Is(err, errors.ErrUnsupported) && what != "a RLock" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestInspectShowsReadersAndJava: those of Go with their record.
func TestInspectShowsReadersAndJava(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := newStore(t, server, readWrite)
	s, id := open(t, store)
	c := shared(1, "x")
	c.Terms.Record = &driver.Record{Owner: "me"}
	attempt(t, s, c, driver.Granted)
	must.OK(t, server.Do("HSET", "x", "7d1c8a5e-0000-4000-8000-000000000001:42", "1").Err())
	st, err := store.Inspect(t.Context(), "x")
	must.OK(t, err)
	var owners []string
	for _, h := range st.Holders {
		owners = append(owners, h.Record.Owner)
		if h.Mode != driver.Shared || h.Record.Owner == "me" && h.Claim != (driver.ClaimID{Session: id, Seq: 1}) {
			t.Errorf("got holder %+v", h)
		}
	}
	if slices.Sort(owners); !slices.Equal(owners, []string{"me", "redisson 7d1c8a5e-0000-4000-8000-000000000001:42"}) {
		t.Errorf("the holders are %v", owners)
	}
}
