// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/redissonstore"
	"github.com/redis/go-redis/v9"
)

// redisson is a server with locks of Redisson. Waiters are not in a queue: they listen on a channel.
type redisson struct {
	version string
	server  *servers.RedisServer
}

func redissonStage(t *testing.T, version string) *stage {
	return newStage(t, version, &redisson{version, redisServer(t)})
}

// traits: a client of read-write locks has the longest TTL of these instead of long, and may poll at its end.
func (*redisson) traits(kind string) traits {
	if kind == "readwrite" {
		return traits{ttl: ttl, long: redissonstore.MaxReadWriteTTL, soon: redissonstore.MaxReadWriteTTL / 2}
	}
	return traits{ttl: ttl, long: long, soon: long}
}

func (r *redisson) apart(t *testing.T) format { return &redisson{r.version, redisServer(t)} }

func (r *redisson) start(t testing.TB) *process {
	t.Helper()
	return start(t, peerOptions{Version: r.version, Servers: []string{r.server.Addr}, Watchdog: watchdog})
}

func (r *redisson) other(s *scene, kind string, mortal bool) contender {
	s.Helper()
	return s.by(kind, mortal)
}

func (*redisson) foreign(name string) string { return name }

func (r *redisson) store(s *scene) driver.Store {
	s.Helper()
	return storeAt(s, watchedClient(s, r.server), s.kind)
}

// watchedClient returns a client whose refused attempts the scene counts.
func watchedClient(s *scene, server *servers.RedisServer) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	client.AddHook(s.refused)
	s.Cleanup(func() { _ = client.Close() })
	return client
}

func storeAt(t testing.TB, client redis.UniversalClient, kind string) *redissonstore.Store {
	t.Helper()
	t.Cleanup(func() { _ = client.Close() })
	store, err := redissonstore.New(client, &redissonstore.Options{ReadWrite: kind == "readwrite"})
	must.OK(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func (r *redisson) url(kind string) string {
	return fmt.Sprintf("redisson://%s?read_write=%v", r.server.Addr, kind == "readwrite")
}

// count counts the holder, or several that read, and the processes that listen for the lock to become free.
func (r *redisson) count(s *scene) int {
	s.Helper()
	return min(1, len(s.fields())) + s.listening()
}

// settled: a subscription does not show that a waiter needs a message, because its attempt after the subscription may come after the
// unlock. So it has found the lock held after that.
func (*redisson) settled(s *scene, by contender) func() bool {
	if a, ok := by.(*actor); ok {
		return a.waits
	}
	return s.refused.twiceMore(s.name)
}

func (*redisson) fence(*scene) driver.Token { return 0 }

func (*redisson) deleteFirst(s *scene) {
	s.Helper()
	s.java().Must("force", "FORCE", s.kind, s.name)
}

func (*redisson) barred(s *scene, c contender) (takes func()) { s.Helper(); return triesAgain(s, c) }

// triesAgain checks that the other cannot take the lock until it is free.
func triesAgain(s *scene, c contender) (takes func()) {
	s.Helper()
	a := c.(*actor)
	if got := a.tries(); got.Word != "no" {
		s.Fatalf("it took the lock beside a Go holder: %v", got)
	}
	return func() { s.Helper(); must.OK(s, a.tries().Err()) }
}

func (*redisson) gaveUp(s *scene, c contender) {
	s.Helper()
	waiting := s.asking(c)
	c.giveUp()
	if got := await(s, "the interrupted lock()", waiting); got.Word != "err" {
		s.Errorf("the interrupted lock() answered %v", got)
	}
}

func (*redisson) held(_ *scene, c contender) { c.(*actor).holds() }

func (*redisson) lost(s *scene, c contender) {
	s.Helper()
	if err := c.unlock(); err == nil || !strings.Contains(err.Error(), "IllegalMonitorState") {
		s.Errorf("unlock of a lock that was lost in a pause: %v", err)
	}
}

func (*redisson) free(s *scene) {
	s.Helper()
	if all := s.fields(); len(all) > 0 {
		s.Fatalf("the lock is not free: %v", all)
	}
}

func (r *redisson) restart(s *scene) { s.Helper(); must.OK(s, r.server.Reboot()) }

// server is that of a scene on Redis.
func (s *scene) server() *servers.RedisServer { return s.format.(*redisson).server }

// fields returns the hash of the lock.
func (s *scene) fields() []string {
	s.Helper()
	all, err := s.server().Do("HGETALL", s.name).StringSlice()
	must.OK(s, err)
	return all
}

// listening is how many processes listen for the lock to become free.
func (s *scene) listening() (n int) {
	s.Helper()
	channel := "redisson_lock__channel:{" + s.name + "}"
	if s.kind == "readwrite" {
		channel = "redisson_rwlock:{" + s.name + "}"
	}
	got, err := s.server().Do("PUBSUB", "NUMSUB", channel).Slice()
	must.OK(s, err)
	_, err = fmt.Sscan(fmt.Sprint(got[1]), &n)
	must.OK(s, err)
	return n
}

// listened waits until n processes listen.
func (s *scene) listened(n int) {
	s.Helper()
	must.OK(s, servers.Await(fmt.Sprint(n, " processes listen"), func() bool { return s.listening() == n }))
}

// lasts lets the read-write lock of a Go holder last longer than a test waits. Its TTL is shorter than that, and a Java waiter that gets
// no message attempts again when the lease that it saw has ended.
func (s *scene) lasts() {
	s.Helper()
	if _, ok := s.format.(*redisson); !ok {
		return
	}
	if n, err := s.server().Do("PEXPIRE", s.name, long.Milliseconds()).Int(); err != nil || n != 1 {
		s.Fatalf("PEXPIRE of a lock that Go holds: %d, %v", n, err)
	}
}

// redissonCells are those that no other format has, for an RLock and an RFencedLock.
var redissonCells = []cell{
	{"renewed", "Java", "Go", func(s *scene) {
		java, locks := s.java(), s.client(ttl)
		java.Must("a", "LOCK", s.kind, s.name, -1)
		ctx, cancel := context.WithTimeout(s.Context(), watchdog+watchdog/2)
		defer cancel()
		if _, err := locks.Mutex(s.name).Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			s.Fatalf("Lock beside a Java holder that renews: %v", err)
		}
		java.Must("a", "UNLOCK", s.kind, s.name)
		s.free(s)
	}},
	{"renewed", "Go", "Java", func(s *scene) {
		java, l := s.java(), s.lock(s.client(ttl))
		if got := java.Do("a", "TRY", s.kind, s.name, (ttl + ttl/2).Milliseconds(), -1); got.Word != "no" {
			s.Fatalf("tryLock beside a Go holder that renews: %v", got)
		}
		must.OK(s, l.Err())
		s.unlock(l)
		s.free(s)
	}},
	{"re-entered", "Java", "Go", func(s *scene) {
		java, locks := s.java(), s.client(long)
		for range 3 {
			java.Must("a", "LOCK", s.kind, s.name, long.Milliseconds())
		}
		waiting := s.locking(locks)
		for left := 2; left >= 0; left-- {
			s.busy(s.client(ttl))
			if java.Must("a", "UNLOCK", s.kind, s.name); left > 0 {
				if got := java.Must("a", "COUNT", s.kind, s.name).Value; got != fmt.Sprint(left) {
					s.Errorf("the hold count is %s, want %d", got, left)
				}
			}
		}
		s.leaves(waiting)
	}},
}

// tokens of Go and of RFencedLock are one sequence.
func tokens(s *scene) {
	java, locks := s.java(), s.client(ttl)
	var last int64
	rise := func(who string, token int64) {
		s.Helper()
		if token <= last {
			s.Errorf("%s has token %d after %d", who, token, last)
		}
		last = token
	}
	for range 3 {
		for range 2 {
			rise("Java", number(s, java.Must("a", "TOKEN", "fenced", s.name).Value))
			java.Must("a", "UNLOCK", "fenced", s.name)
		}
		for range 2 {
			l := s.lock(locks)
			rise("Go", int64(l.Token()))
			s.unlock(l)
			rise("Go's handoffs", int64(l.Token())+driver.TokenStep-1)
		}
	}
}

// redissonTables are in the order of the page.
var redissonTables = func() []table {
	cells := slices.Concat(excluded, woken, holderKilled, waiterKilled, holderPaused, waiterPaused, deleted("forced open")[1:], brokenByOperator[:1],
		redissonCells, waiterGivesUp[:1], faults)
	same := []cell{{"same on the wire", "both", "both", sameOnTheWire}, {"same in the store", "both", "both", sameInStore}}
	return []table{
		{"RLock", "lock", "", slices.Concat(cells, same)},
		{"RFencedLock", "fenced", "3.19.0", slices.Concat(cells, []cell{{"tokens rise", "both", "both", tokens}}, same)},
		{"RReadWriteLock", "readwrite", "", readWrite},
	}
}()

// onACluster are the rows of TestRedissonOnACluster.
var onACluster = []row{{"RLock on a cluster", "woken", "Go", "Java"}, {"RLock on a cluster", "woken", "Java", "Go"}}

// TestRedisson plays all cells.
func TestRedisson(t *testing.T) {
	slow := []string{"holder killed", "waiter killed", "holder paused", "waiter paused", "renewed", "reply", "server", "same", "reader killed", "writer killed"}
	for _, version := range chosen() {
		t.Run(version, func(t *testing.T) { redissonStage(t, version).playTables(t, redissonTables, slow) })
	}
}
