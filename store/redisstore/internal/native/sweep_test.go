// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// TestDeadProcessIsSwept: what a process that died has left behind is removed although no
// other process requests its locks, and what belongs to a process that lives stays.
func TestDeadProcessIsSwept(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	store, err := newGoRedis(client, nil)
	must.OK(t, err)
	ctx := t.Context()
	open := func(ttl time.Duration) driver.Session {
		s, _, err := store.Open(ctx, driver.OpenRequest{Shard: store.Shard(""), ID: driver.NewSessionID(), TTL: ttl})
		must.OK(t, err)
		return s
	}
	attempt := func(s driver.Session, seq int, name string, terms driver.Terms) {
		terms.Record = &driver.Record{}
		if _, err := s.Attempt(ctx, &driver.Claim{Seq: uint64(seq), Name: name, Terms: &terms, Queue: true}); err != nil {
			t.Fatal(err)
		}
	}
	keep := func(s driver.Session) {
		if _, err := s.KeepAlive(ctx); err != nil {
			t.Fatal(err)
		}
	}
	living, dying := open(time.Minute), open(5*time.Second)
	const many = 500
	const tombstones = 32 // the server shows them before the session and after it, in the order of a hash
	exclusive, shared := driver.Terms{Weight: 1}, driver.Terms{Mode: driver.Shared, Weight: 1}
	for i := range many {
		attempt(dying, 3*i, fmt.Sprint("held", i), exclusive)
		attempt(dying, 3*i+1, fmt.Sprint("read", i), shared)
		attempt(dying, 3*i+2, "wanted", exclusive)
		attempt(living, 2*i, fmt.Sprint("lives", i), exclusive)
		keep(dying) // until all is there, however slow the machine
	}
	attempt(living, 2*many, "held0", exclusive) // waits for the one that dies
	for i := 1; i <= tombstones; i++ {
		if _, err := dying.Withdraw(ctx, driver.Withdrawal{Seq: uint64(3 * i), Name: fmt.Sprint("held", i), Tombstone: true}); err != nil {
			t.Fatal(err)
		}
		keep(dying)
	}
	// The session of the dying process gets no keep-alive. What is left: the bucket with the living
	// session and its end, the tickets, the locks of that session and the lock that it waited for.
	redistest.WaitFor(t, "what the dead process has left behind is gone", func() bool {
		keep(living)
		return swept(t, client, 3+many+1)
	})
	if st, err := store.Inspect(ctx, "held0"); err != nil || len(st.Holders) != 1 || st.Holders[0].Claim.Seq != 2*many {
		t.Errorf("held0 went to %+v, %v; want the one that waited for it", st.Holders, err)
	}
}

// swept reports whether that many keys are left, and of the bucket the marker, the last ticket
// and one session, whether a sweep is in progress or not.
func swept(t *testing.T, client *redis.Client, keys int64) bool {
	t.Helper()
	n, err := client.DBSize(t.Context()).Result()
	must.OK(t, err)
	fields, err := client.HKeys(t.Context(), bucketOf("fencelock")).Result()
	must.OK(t, err)
	fields = slices.DeleteFunc(fields, func(f string) bool { return f == "g" })
	return n == keys && len(fields) == 3
}

// TestSweepPassesACrowdOfReaders: a sweep ends although a claim waits behind more readers that
// live than one call checks.
func TestSweepPassesACrowdOfReaders(t *testing.T) {
	t.Parallel()
	l := newLayout(t)
	for _, name := range []string{"ann", "bob", "eve"} {
		l.open(name)
	}
	const readers = 300
	for seq := uint64(1); seq <= readers; seq++ {
		l.attemptOf("bob", seq, "read", driver.Terms{Mode: driver.Shared}, driver.Granted)
	}
	l.attemptOf("eve", 1, "read", driver.Terms{}, driver.Queued)
	l.attemptOf("ann", 1, "x", driver.Terms{}, driver.Granted)
	l.dies("ann")
	redistest.WaitFor(t, "the sweep ends", func() bool {
		_, err := l.on["bob"].KeepAlive(l.ctx)
		l.must(err)
		return slices.Equal(l.state(), []string{":g:read", ":l:read", ":s", ":t", "m", "sbob", "seve", "v"})
	})
}

// TestSweepStopsAfterLongQueues: one call sweeps few locks if many dead claims wait for each, so that
// it does not block the server.
func TestSweepStopsAfterLongQueues(t *testing.T) {
	t.Parallel()
	l := newLayout(t)
	l.open("ann")
	l.open("bob")
	const locks, claims = 16, 200
	for seq := range uint64(locks * claims) {
		want := driver.Queued
		if seq < locks {
			want = driver.Granted
		}
		l.attemptOf("ann", seq+1, fmt.Sprint("x", seq%locks), driver.Terms{}, want)
	}
	l.dies("ann")
	before := l.scripts()
	_, err := l.on["bob"].KeepAlive(l.ctx)
	l.must(err)
	redistest.WaitFor(t, "the sweep ends", func() bool { return slices.Equal(l.state(), []string{":s", ":t", "m", "sbob", "v"}) })
	if n := l.scripts() - before; n < locks {
		t.Errorf("%d locks with %d dead claims each are swept by %d scripts", locks, claims, n)
	}
}

// TestSweepOfAPlainLockIsTwoCalls: a process may leave a million locks behind, so each that none waits
// for costs the server no more than to read it and to remove it; one of a process that lives, to read it.
func TestSweepOfAPlainLockIsTwoCalls(t *testing.T) {
	t.Parallel()
	l := newLayout(t)
	l.open("ann")
	l.open("bob")
	const locks = 100
	left := []string{":s", ":t", "m", "sbob", "v"}
	for i := range uint64(locks) {
		l.attemptOf("ann", i+1, fmt.Sprint("dead", i), driver.Terms{}, driver.Granted)
		l.attemptOf("bob", i+1, fmt.Sprint("lives", i), driver.Terms{}, driver.Granted)
		left = append(left, fmt.Sprint(":l:lives", i))
	}
	slices.Sort(left)
	l.dies("ann")
	before := l.calls("lrange|lpop|llen|hexists|hget|hdel")
	_, err := l.on["bob"].KeepAlive(l.ctx)
	l.must(err)
	redistest.WaitFor(t, "the sweep ends", func() bool { return slices.Equal(l.state(), left) })
	if n := l.calls("lrange|lpop|llen|hexists|hget|hdel") - before; n > 3*locks+locks/2 {
		t.Errorf("%d locks of a dead process and as many of another took %d calls, want 3 for both", locks, n)
	}
}

// TestSweepRemovesAClaimThatCameAfterItsWithdrawal: the session of a claim lives, but the claim was withdrawn before
// it was pushed, so its process does not know that it holds the lock.
func TestSweepRemovesAClaimThatCameAfterItsWithdrawal(t *testing.T) {
	t.Parallel()
	l := newLayout(t)
	l.open("ann")
	l.open("bob")
	l.attemptOf("ann", 1, "x", driver.Terms{}, driver.Granted)
	l.attemptOf("bob", 1, "late", driver.Terms{}, driver.Granted)
	pushed := l.elements("late")
	_, err := l.on["bob"].Withdraw(l.ctx, driver.Withdrawal{Seq: 1, Name: "late", Tombstone: true})
	l.must(err)
	l.must(l.plain.RPush(l.ctx, l.list("late"), pushed).Err())
	l.dies("ann")
	_, err = l.on["bob"].KeepAlive(l.ctx)
	l.must(err)
	redistest.WaitFor(t, "the sweep ends", func() bool { return slices.Equal(l.state(), []string{":s", ":t", "bbob" + six(1), "m", "sbob", "v"}) })
}

// TestSweepLeavesWhatIsKept: a sweep goes over all locks, and those that are kept without a session have not ended.
func TestSweepLeavesWhatIsKept(t *testing.T) {
	t.Parallel()
	l := newLayout(t)
	for _, name := range []string{"ann", "bob"} {
		l.open(name)
	}
	l.attemptOf("ann", 1, "marked", driver.Terms{}, driver.Granted)
	_, err := l.on["ann"].Withdraw(l.ctx, driver.Withdrawal{Seq: 1, Name: "marked", KeepFor: time.Hour})
	l.must(err)
	l.attemptOf("ann", 2, "held", driver.Terms{MinHold: time.Hour}, driver.Granted)
	l.attemptOf("ann", 3, "x", driver.Terms{}, driver.Granted)
	l.dies("ann")
	redistest.WaitFor(t, "the sweep ends", func() bool {
		_, err := l.on["bob"].KeepAlive(l.ctx)
		l.must(err)
		if !slices.Contains(l.state(), ":l:marked") {
			t.Fatal("a lock that is kept was removed")
		}
		return slices.Equal(l.state(), []string{":k", ":l:held", ":l:marked", ":s", ":t", "m", "sbob", "v"})
	})
	for _, name := range []string{"marked", "held"} {
		if due, err := l.plain.ZScore(l.ctx, l.bucket+":k", name).Result(); err != nil || time.UnixMilli(int64(due)).Before(time.Now().Add(50*time.Minute)) {
			t.Errorf("%s is looked at again at %v, %v", name, time.UnixMilli(int64(due)), err)
		}
	}
}

// scripts is how many scripts the server has run.
func (l *layout) scripts() int { l.t.Helper(); return l.calls("eval(?:sha)?") }

// calls is how often the server has run some commands.
func (l *layout) calls(commands string) (n int) {
	l.t.Helper()
	text, err := l.plain.Info(l.ctx, "commandstats").Result()
	l.must(err)
	for _, m := range regexp.MustCompile(`cmdstat_(?:`+commands+`):calls=(\d+)`).FindAllStringSubmatch(text, -1) {
		calls, err := strconv.Atoi(m[1])
		l.must(err)
		n += calls
	}
	return n
}

// dies ends a session as if its process had died a long time ago.
func (l *layout) dies(name string) {
	l.t.Helper()
	id, rest := l.ids[name], l.field("s" + name)[6:]
	l.must(l.plain.HSet(l.ctx, l.bucket, "s"+string(id[:]), string(make([]byte, 6))+rest).Err())
	l.must(l.plain.ZAdd(l.ctx, l.sessions(), redis.Z{Score: 1, Member: string(id[:])}).Err())
}
