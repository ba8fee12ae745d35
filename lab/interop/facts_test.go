// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/redis/go-redis/v9"
)

// fact is something about Redisson itself that the store or its pages rely on. It was read in the
// source; here it is proved. in are the versions it is proved with, the newest one if empty.
type fact struct {
	what string
	in   []string
	do   func(s *scene)
}

var facts = []fact{
	{"extra fields in the hash of an RLock disturb no version", versions, func(s *scene) {
		java := s.java()
		java.Must("a", "LOCK", "lock", s.name, -1)
		must.OK(s, s.server().Do("HSET", s.name, "fencelock", "data").Err())
		java.Must("a", "LOCK", "lock", s.name, -1)
		java.Must("a", "UNLOCK", "lock", s.name)
		java.Must("a", "HELD", "lock", s.name)
		java.Must("a", "UNLOCK", "lock", s.name)
		s.free(s)
	}},
	{"a message that is not a number is lost, and the connection goes on", versions, func(s *scene) {
		java := s.java()
		must.OK(s, s.server().Do("HSET", s.name, "other:1", "1").Err())
		must.OK(s, s.server().Do("PEXPIRE", s.name, long.Milliseconds()).Err())
		waiting := java.Ask("a", "LOCK", "lock", s.name, -1)
		s.listened(1)
		channel := "redisson_lock__channel:{" + s.name + "}"
		must.OK(s, s.server().Do("PUBLISH", channel, "not a number").Err())
		s.listened(1)
		must.OK(s, s.server().Do("DEL", s.name).Err())
		must.OK(s, s.server().Do("PUBLISH", channel, "0").Err())
		must.OK(s, await(s, "lock() after a message that it cannot read", waiting).Err())
		java.Must("a", "UNLOCK", "lock", s.name)
	}},
	{"a multi-lock with a lease gives the token key a time to live", versionsFrom("3.19.0"), func(s *scene) {
		java := s.java()
		java.Must("a", "MULTI", "fenced", s.name, long.Milliseconds())
		if left, err := s.server().Do("PTTL", "redisson_lock_token:{"+s.name+"}").Int(); err != nil || left <= 0 {
			s.Errorf("the token key lives for %d ms, %v; -1 is forever", left, err)
		}
		java.Must("a", "UNLOCK", "fenced", s.name)
		l := s.lock(s.client(ttl))
		if left, err := s.server().Do("PTTL", "redisson_lock_token:{"+s.name+"}").Int(); err != nil || left != -1 {
			s.Errorf("after a Go lock the token key lives for %d ms, %v, want forever", left, err)
		}
		s.unlock(l)
	}},
	{"lockAndGetToken with a lease renews, as if it had none", []string{newest}, func(s *scene) {
		java := s.java()
		java.Must("a", "TOKENLEASE", "fenced", s.name, 3000)
		if left, err := s.server().Do("PTTL", s.name).Int(); err != nil || left <= 3000 {
			s.Errorf("the lock lives for %d ms, %v, want the watchdog's time", left, err)
		}
		java.Must("a", "UNLOCK", "fenced", s.name)
	}},
	{"tryLockAndGetToken without a wait waits", []string{newest}, func(s *scene) {
		java := s.java()
		java.Must("a", "LOCK", "fenced", s.name, long.Milliseconds())
		waiting := java.Ask("b", "TRYTOKEN", "fenced", s.name)
		s.listened(1)
		java.Must("a", "UNLOCK", "fenced", s.name)
		must.OK(s, await(s, "tryLockAndGetToken", waiting).Err())
		java.Must("b", "UNLOCK", "fenced", s.name)
	}},
	{"tryLock of a fair lock without a lease drops the unit of its wait", []string{newest}, func(s *scene) {
		java := s.java()
		java.Must("a", "LOCK", "fair", s.name, long.Milliseconds())
		waiting := java.Ask("b", "TRYSECONDS", "fair", s.name, 3600)
		queue := "redisson_lock_timeout:{" + s.name + "}"
		must.OK(s, servers.Await("b is queued", func() bool { n, err := s.server().Do("ZCARD", queue).Int(); return err == nil && n == 1 }))
		pairs, err := s.server().Do("ZRANGE", queue, 0, -1, "WITHSCORES").StringSlice()
		must.OK(s, err)
		var score float64
		_, err = fmt.Sscan(pairs[1], &score)
		must.OK(s, err)
		// The position lapses after what is left of the lease and the wait, an hour that became 3.6 s.
		if left := time.Until(time.UnixMilli(int64(score))); left > long+time.Minute {
			s.Errorf("the position lapses after %v", left)
		}
		java.Must("b", "INTERRUPT", "fair", s.name)
		await(s, "tryLock", waiting)
		java.Must("a", "UNLOCK", "fair", s.name)
	}},
	{"an interrupted waiter of a fair lock stays in the queue and blocks the free lock", []string{newest}, func(s *scene) {
		java := s.java()
		java.Must("a", "LOCK", "fair", s.name, long.Milliseconds())
		waiting := java.Ask("b", "LOCK", "fair", s.name, -1)
		queue := "redisson_lock_queue:{" + s.name + "}"
		must.OK(s, servers.Await("b is queued", func() bool { n, err := s.server().Do("LLEN", queue).Int(); return err == nil && n == 1 }))
		java.Must("b", "INTERRUPT", "fair", s.name)
		await(s, "the interrupted lock()", waiting)
		java.Must("a", "UNLOCK", "fair", s.name)
		if n, err := s.server().Do("LLEN", queue).Int(); err != nil || n != 1 {
			s.Errorf("%d are in the queue, %v, want the interrupted one", n, err)
		}
		if got := java.Do("c", "TRY", "fair", s.name, 0, -1); got.Word != "no" {
			s.Errorf("tryLock of the free lock: %v", got)
		}
	}},
	{"a waiter that comes behind an interrupted one of a free fair lock polls without a pause", []string{newest}, func(s *scene) {
		s = s.apart() // whose scripts are counted
		java := s.java()
		java.Must("a", "LOCK", "fair", s.name, long.Milliseconds())
		interrupted := java.Ask("b", "LOCK", "fair", s.name, -1)
		queued := func(want int) {
			must.OK(s, servers.Await("the queue", func() bool {
				n, err := s.server().Do("LLEN", "redisson_lock_queue:{"+s.name+"}").Int()
				return err == nil && n == want
			}))
		}
		queued(1)
		java.Must("b", "INTERRUPT", "fair", s.name)
		await(s, "the interrupted lock()", interrupted)
		java.Must("a", "UNLOCK", "fair", s.name)
		waiting := java.Ask("c", "LOCK", "fair", s.name, -1)
		queued(2)
		const many = 200 // a waiter that is woken sends a handful
		before := s.evaluations()
		must.OK(s, servers.Await("many polls of the free lock", func() bool { return s.evaluations() > before+many }))
		java.Must("c", "INTERRUPT", "fair", s.name)
		await(s, "lock() behind it", waiting)
	}},
	{"a waiter of a fair lock that gives up takes more from those behind than it added", []string{newest}, func(s *scene) {
		java := s.java()
		java.Must("a", "LOCK", "fair", s.name, long.Milliseconds())
		givesUp := java.Ask("b", "TRYSECONDS", "fair", s.name, 8)
		timeouts := "redisson_lock_timeout:{" + s.name + "}"
		last := func(want int) (score float64) {
			must.OK(s, servers.Await("the queue", func() bool { n, err := s.server().Do("ZCARD", timeouts).Int(); return err == nil && n == want }))
			pairs, err := s.server().Do("ZRANGE", timeouts, -1, -1, "WITHSCORES").StringSlice()
			must.OK(s, err)
			_, err = fmt.Sscan(pairs[1], &score)
			must.OK(s, err)
			return score
		}
		last(1)
		waiting := java.Ask("c", "LOCK", "fair", s.name, -1)
		before := last(2)
		if got := await(s, "tryLock", givesUp); got.Word != "no" {
			s.Errorf("tryLock of a held lock: %v", got)
		}
		// It had added 8 ms, because the unit of its wait is dropped.
		if lost := before - last(1); lost < 7000 {
			s.Errorf("the position behind lapses %v ms earlier, want 8 s", lost)
		}
		java.Must("a", "UNLOCK", "fair", s.name)
		must.OK(s, await(s, "lock() of the next", waiting).Err())
		java.Must("c", "UNLOCK", "fair", s.name)
	}},
	{"a fair lock with waiters is rejected by the store", versions, func(s *scene) {
		java := s.java()
		java.Must("a", "LOCK", "fair", s.name, long.Milliseconds())
		waiting := java.Ask("b", "LOCK", "fair", s.name, -1)
		must.OK(s, servers.Await("b is queued", func() bool {
			n, err := s.server().Do("LLEN", "redisson_lock_queue:{"+s.name+"}").Int()
			return err == nil && n == 1
		}))
		if _, err := s.client(ttl).Mutex(s.name).TryLock(s.Context()); err == nil || !strings.Contains(err.Error(), "RFairLock") {
			s.Errorf("TryLock of a fair lock: %v", err)
		}
		java.Must("a", "UNLOCK", "fair", s.name)
		must.OK(s, await(s, "lock() of the next", waiting).Err())
		java.Must("b", "UNLOCK", "fair", s.name)
	}},
	{"delete of a latch wakes no waiter", []string{newest}, func(s *scene) {
		java := s.java()
		java.Must("a", "LATCHSET", "lock", s.name, 1)
		waiting := java.Ask("b", "LATCHAWAIT", "lock", s.name, 20_000)
		must.OK(s, servers.Await("b listens", func() bool {
			got, err := s.server().Do("PUBSUB", "NUMSUB", "redisson_countdownlatch__channel__{"+s.name+"}").Slice()
			return err == nil && len(got) == 2 && fmt.Sprint(got[1]) == "1"
		}))
		time.Sleep(5 * time.Second) // it reads the count once more after it has subscribed
		java.Must("a", "LATCHDELETE", "lock", s.name)
		if got := await(s, "await", waiting); got.Word == "ok" && got.End.Sub(got.Begin) < 15*time.Second {
			s.Errorf("await of a latch that was deleted: %v", got)
		}
	}},
	{"a read unlock ends the renewal of the write lock of the same thread", []string{"3.45.1", newest}, func(s *scene) {
		java := s.java()
		java.Must("a", "LOCK", "write", s.name, -1)
		java.Must("a", "LOCK", "read", s.name, -1)
		java.Must("a", "UNLOCK", "read", s.name)
		java.Must("a", "HELD", "write", s.name)
		must.OK(s, servers.Await("the write lock lapses", func() bool { n, err := s.server().Do("EXISTS", s.name).Int(); return err == nil && n == 0 }))
	}},
	{"a reader that holds twice is not renewed", []string{"3.45.1", "3.52.0"}, func(s *scene) {
		java := s.java()
		java.Must("a", "LOCK", "read", s.name, -1)
		java.Must("a", "LOCK", "read", s.name, -1)
		key := "{" + s.name + "}:" + s.shared.ID + ":" + java.Must("a", "THREAD", "read", s.name).Value + ":rwlock_timeout:1"
		must.OK(s, servers.Await("the hold lapses", func() bool { n, err := s.server().Do("EXISTS", key).Int(); return err == nil && n == 0 }))
	}},
}

// evaluations is how many scripts the server has run.
func (s *scene) evaluations() (n int) {
	s.Helper()
	stats, err := s.server().Do("INFO", "commandstats").Text()
	must.OK(s, err)
	for line := range strings.Lines(stats) {
		var calls int
		if name, rest, _ := strings.Cut(line, ":calls="); name == "cmdstat_eval" || name == "cmdstat_evalsha" {
			_, err := fmt.Sscanf(rest, "%d", &calls)
			must.OK(s, err)
			n += calls
		}
	}
	return n
}

// versionsFrom are those from a first one on.
func versionsFrom(first string) (all []string) {
	for _, v := range versions {
		if compareVersions(v, first) >= 0 {
			all = append(all, v)
		}
	}
	return all
}

// TestFactsAboutRedisson proves what the store and its pages rely on.
func TestFactsAboutRedisson(t *testing.T) {
	byHand(t)
	if !*all {
		t.Skip("run it with -interop.all")
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			stage := redissonStage(t, version)
			for _, f := range facts {
				for _, v := range f.in {
					if v == version {
						t.Run(f.what, func(t *testing.T) { t.Parallel(); stage.play(t, "lock", f.do) })
					}
				}
			}
		})
	}
}

// TestNamesWithABraceOnACluster: Redisson locks a name with an unpaired or empty brace, and cannot unlock
// it. The store rejects such names.
func TestNamesWithABraceOnACluster(t *testing.T) {
	byHand(t)
	if !*all {
		t.Skip("run it with -interop.all")
	}
	cluster := servers.Test(t, func() (*servers.RedisCluster, error) { return servers.Redis.StartCluster(time.Hour) })
	java := &peer{start(t, peerOptions{Version: newest, Servers: cluster.Addrs(), Watchdog: watchdog}), ""}
	locks := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	store := storeAt(t, locks, "lock")
	for _, name := range []string{"a{b", "a{}b", "a}b"} {
		java.Must("a", "LOCK", "lock", name, 3000)
		got := java.Do("a", "UNLOCK", "lock", name)
		if got.Word != "err" || !strings.Contains(strings.ToUpper(got.Value), "CROSSSLOT") && !strings.Contains(got.Value, "slot") {
			t.Errorf("unlock of %s: %v", name, got)
		}
		if _, err := store.Inspect(t.Context(), name); err == nil || errors.Is(err, redis.Nil) {
			t.Errorf("the store takes the name %s", name)
		}
	}
}
