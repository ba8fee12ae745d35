// SPDX-License-Identifier: Apache-2.0

package redissonstore_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/store/redisstore/redissonstore"
	"github.com/redis/go-redis/v9"
)

// long is a TTL that no test waits for.
const long = 10 * time.Minute

func newStore(t *testing.T, server *redistest.Server, opts *redissonstore.Options, hooks ...redis.Hook) *redissonstore.Store {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = client.Close() })
	for _, h := range hooks {
		client.AddHook(h)
	}
	store, err := redissonstore.New(client, opts)
	must.OK(t, err)
	return store
}

func newClient(t *testing.T, store driver.Store) *fencelock.Client {
	t.Helper()
	locks, err := fencelock.New(store, &fencelock.Options{TTL: min(long, store.Caps().MaxTTL)})
	must.OK(t, err)
	t.Cleanup(func() { _ = locks.Close(context.Background()) })
	return locks
}

// open opens a session of a store.
func open(t *testing.T, store *redissonstore.Store) (driver.Session, driver.SessionID) {
	t.Helper()
	id := driver.NewSessionID()
	s, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: id, TTL: min(long, store.Caps().MaxTTL)})
	must.OK(t, err)
	return s, id
}

func claim(seq uint64, name string) *driver.Claim {
	return &driver.Claim{Seq: seq, Name: name, Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
}

// attempt attempts a claim, which must come to a state.
func attempt(t *testing.T, s driver.Session, c *driver.Claim, want driver.State) driver.Outcome {
	t.Helper()
	out, err := s.Attempt(t.Context(), c)
	must.OK(t, err)
	if out.State != want {
		t.Fatalf("claim %d of %s is %v, want %v", c.Seq, c.Name, out.State, want)
	}
	return out
}

func TestCorrectnessIsRefused(t *testing.T) {
	t.Parallel()
	_, err := fencelock.New(newStore(t, redistest.Start(t), nil), &fencelock.Options{Require: fencelock.Correctness})
	if err == nil || !strings.Contains(err.Error(), "getLock in Java takes no token") {
		t.Errorf("Require: Correctness: %v", err)
	}
}

// TestGuaranteesNameTheLimits: what the format cannot give is in the words of Guarantees.
func TestGuaranteesNameTheLimits(t *testing.T) {
	t.Parallel()
	text := newClient(t, newStore(t, redistest.Start(t), nil)).Guarantees().String()
	for _, want := range []string{"RFencedLock", "no guard can reject it", "in no particular order", "is reported at the next renewal", "may be lost in a crash"} {
		if !strings.Contains(text, want) {
			t.Errorf("the guarantees do not say %q:\n%s", want, text)
		}
	}
}

// TestRenewalTakesFewScripts: Redisson renews a hundred locks with a script.
func TestRenewalTakesFewScripts(t *testing.T) {
	t.Parallel()
	const leases = 1000
	server := redistest.Start(t)
	s, _ := open(t, newStore(t, server, nil))
	for i := range leases {
		attempt(t, s, claim(uint64(i+1), fmt.Sprint("x", i)), driver.Granted)
	}
	for i := range leases {
		must.OK(t, server.Do("PEXPIRE", fmt.Sprint("x", i), 60_000).Err())
	}
	before := scripts(t, server)
	renewal, err := s.KeepAlive(t.Context())
	must.OK(t, err)
	sent := scripts(t, server) - before
	figure.Print("interop-renew-scripts-per-1000-leases", sent, figure.AtMost(10))
	if sent > 10 || len(renewal.Broken) > 0 {
		t.Errorf("%d scripts renewed %d leases, and %d were reported broken", sent, leases, len(renewal.Broken))
	}
	for i := range leases {
		if left, err := server.Do("PTTL", fmt.Sprint("x", i)).Int(); err != nil || left <= 60_000 {
			t.Fatalf("lock %d was not renewed: %d ms left, %v", i, left, err)
		}
	}
	before = scripts(t, server)
	must.OK(t, s.Close(t.Context()))
	if sent := scripts(t, server) - before; sent > 10 {
		t.Errorf("%d scripts ended a session of %d leases", sent, leases)
	}
	if n, err := server.Do("EXISTS", "x0", "x999").Int(); err != nil || n != 0 {
		t.Errorf("%d locks are left, %v", n, err)
	}
}

var evals = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`)

// scripts counts the scripts that a server has run.
func scripts(t *testing.T, server *redistest.Server) (n int) {
	t.Helper()
	text, err := server.Do("INFO", "commandstats").Text()
	must.OK(t, err)
	for _, m := range evals.FindAllStringSubmatch(text, -1) {
		calls, err := strconv.Atoi(m[1])
		must.OK(t, err)
		n += calls
	}
	return n
}

// TestKeyInUseIsAnError: waiting for another kind of key would never end.
func TestKeyInUseIsAnError(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := newStore(t, server, nil)
	locks := newClient(t, store)
	must.OK(t, server.Do("SET", "text", "1").Err())
	must.OK(t, server.Do("HSET", "rw", "mode", "read", "x:1", "1").Err())
	must.OK(t, server.Do("HSET", "fair", "x:1", "1").Err())
	must.OK(t, server.Do("RPUSH", "redisson_lock_queue:{fair}", "x:2").Err())
	for name, kind := range map[string]string{"text": "RPermitExpirableSemaphore", "rw": "RReadWriteLock", "fair": "use getLock in the Java services"} {
		if _, err := locks.Mutex(name).TryLock(t.Context()); err == nil || !strings.Contains(err.Error(), kind) {
			t.Errorf("lock of a %s: %v", kind, err)
		}
	}
	if _, err := store.Inspect(t.Context(), "text"); err == nil || !strings.Contains(err.Error(), "string") {
		t.Errorf("inspect of a string: %v", err)
	}
}

// TestLockForcedOpenIsReported: by forceUnlock of Redisson, or by DEL.
func TestLockForcedOpenIsReported(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, _ := open(t, newStore(t, server, nil))
	for seq, name := range []string{"", "forced", "taken", "other kind", "held"} {
		if seq > 0 {
			attempt(t, s, claim(uint64(seq), name), driver.Granted)
		}
	}
	must.OK(t, server.Do("DEL", "forced", "taken", "other kind").Err())
	must.OK(t, server.Do("HSET", "taken", "java:1", "1").Err())
	must.OK(t, server.Do("SET", "other kind", "1").Err())
	for range 2 { // until they are withdrawn
		renewal, err := s.KeepAlive(t.Context())
		must.OK(t, err)
		if got := fmt.Sprint(renewal.Broken); len(renewal.Broken) != 3 || strings.Contains(got, "4") {
			t.Errorf("broken are %v, want claims 1 to 3", got)
		}
	}
	attempt(t, s, claim(1, "forced"), driver.Absent)
	if found, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: 2, Name: "taken"}); err != nil || found != driver.WasBroken {
		t.Errorf("the withdrawal found it %v, %v", found, err)
	}
	if n := number(t, server, "HGET", "taken", "java:1"); n != 1 {
		t.Errorf("the Java holder's count is %d", n)
	}
}

// TestUnlockOfALockForcedOpen: before a renewal has found it out.
func TestUnlockOfALockForcedOpen(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locks := newClient(t, newStore(t, server, nil))
	l, err := locks.Mutex("x").Lock(t.Context())
	must.OK(t, err)
	must.OK(t, server.Do("DEL", "x").Err())
	if err := l.Unlock(t.Context()); !errors.Is(err, fencelock.LossForceUnlock) {
		t.Errorf("Unlock: %v", err)
	}
}

// TestTokensContinueThoseOfRFencedLock: it increments the counter, and may lose it.
func TestTokensContinueThoseOfRFencedLock(t *testing.T) {
	t.Parallel()
	const counter = "redisson_lock_token:{x}"
	server := redistest.Start(t)
	s, _ := open(t, newStore(t, server, nil))
	last := int64(0)
	for seq, before := range [][]any{{"PING"}, {"INCR", counter}, {"PEXPIRE", counter, 60_000}, {"DEL", counter}, {"INCRBY", counter, 1 << 52}, {"INCR", counter}} {
		must.OK(t, server.Do(before...).Err())
		last = max(last, number(t, server, "GET", counter))
		out := attempt(t, s, claim(uint64(seq+1), "x"), driver.Granted)
		if int64(out.Token) <= last {
			t.Errorf("after %v: token %d, want one above %d", before, out.Token, last)
		}
		if last = number(t, server, "GET", counter); last != int64(out.Token)+driver.TokenStep-1 {
			t.Errorf("after %v: the counter is %d with token %d, want it above the handoffs' numbers", before, last, out.Token)
		}
		if left, err := server.Do("PTTL", counter).Int(); err != nil || left != -1 {
			t.Errorf("after %v: the counter lives for %d ms, %v", before, left, err)
		}
		_, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: uint64(seq + 1), Name: "x"})
		must.OK(t, err)
	}
}

// number returns what the server has as text, 0 if it has nothing.
func number(t *testing.T, server *redistest.Server, command ...any) (n int64) {
	t.Helper()
	if text, ok := server.Do(command...).Val().(string); ok {
		var err error
		n, err = strconv.ParseInt(text, 10, 64)
		must.OK(t, err)
	}
	return n
}

// TestNoTokensLeavesNoKey: as getLock of Redisson.
func TestNoTokensLeavesNoKey(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := newStore(t, server, &redissonstore.Options{NoTokens: true, NameMapper: func(name string) string { return "app:" + name }})
	s, _ := open(t, store)
	attempt(t, s, claim(1, "x"), driver.Granted)
	if n, err := server.Do("EXISTS", "app:x").Int(); err != nil || n != 1 {
		t.Errorf("the name was not mapped: %v", err)
	}
	must.OK(t, s.Close(t.Context()))
	if keys, err := server.Do("KEYS", "*").StringSlice(); err != nil || len(keys) > 0 {
		t.Errorf("left are %v, %v", keys, err)
	}
}

// TestLostReplyLeavesACountOfOne: Redisson counts a repeated acquisition twice.
func TestLostReplyLeavesACountOfOne(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lossy := &redistest.Loser{}
	s, id := open(t, newStore(t, server, nil, lossy))
	lossy.On.Store(true)
	for range 3 {
		if _, err := s.Attempt(t.Context(), claim(1, "x")); !errors.Is(err, driver.ErrUnknown) {
			t.Fatalf("an attempt whose reply was lost: %v", err)
		}
	}
	lossy.On.Store(false)
	attempt(t, s, claim(1, "x"), driver.Granted)
	h := id.String()
	holder := h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:] + ":1"
	if n := number(t, server, "HGET", "x", holder); n != 1 {
		t.Errorf("the hold count is %d", n)
	}
	_, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"})
	must.OK(t, err)
	if n, err := server.Do("EXISTS", "x").Int(); err != nil || n != 0 {
		t.Errorf("the lock was not freed, %v", err)
	}
}

// TestAttemptOfAWaitThatIsLateIsNotGranted: Await attempts by itself, so the core cannot know that
// an attempt may be under way.
func TestAttemptOfAWaitThatIsLateIsNotGranted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lossy := &redistest.Loser{}
	s, _ := open(t, newStore(t, server, nil, lossy))
	must.OK(t, server.Do("HSET", "x", "java:1", "1").Err())
	must.OK(t, server.Do("PEXPIRE", "x", 60_000).Err())
	attempt(t, s, claim(1, "x"), driver.Busy)
	before := scripts(t, server)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Await(t.Context(), claim(1, "x"))
		ended <- err
	}()
	must.OK(t, servers.Await("the wait has begun with an attempt", func() bool { return scripts(t, server) > before || len(ended) > 0 }))
	lossy.On.Store(true)
	must.OK(t, server.Do("DEL", "x").Err())
	must.OK(t, server.Do("PUBLISH", "redisson_lock__channel:{x}", "0").Err())
	if err := <-ended; !errors.Is(err, driver.ErrUnknown) {
		t.Fatalf("the wait ended with %v", err)
	}
	lossy.On.Store(false)
	_, err := s.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"})
	must.OK(t, err)
	attempt(t, s, claim(1, "x"), driver.Absent) // as a late one
	if n, err := server.Do("EXISTS", "x").Int(); err != nil || n != 0 {
		t.Errorf("the lock is not free, %v", err)
	}
}
