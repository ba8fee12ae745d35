// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// forbidding starts a server with three processes, as a user that may not run a command any more once forbid is called. So a
// script ends in the middle, with what it has written by then.
func forbidding(t *testing.T, command string) (server *redistest.Server, ps []*party, forbid, allow func()) {
	t.Helper()
	server, to := startWithUser(t, redistest.Redis)
	l := newTimeline(t)
	for _, name := range []string{"holder", "next", "third"} {
		ps = append(ps, join(t, l, name, libraries[0].open(t, to, nil), fencelock.Options{TTL: 3 * time.Second}))
		unlock(t, ps[len(ps)-1].lock("x")) // it has a session
	}
	rule := func(sign string) func() {
		return func() {
			l.note("ACL SETUSER locks %s%s", sign, command)
			must.OK(t, server.Do("ACL", "SETUSER", "locks", sign+command).Err())
		}
	}
	return server, ps, rule("-"), rule("+")
}

// fails unlocks, which an error in the script must report.
func fails(t *testing.T, lease *fencelock.Lease) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := lease.Unlock(ctx); err == nil {
		t.Fatal("the script was not rejected")
	}
}

// pushesOf begins to count messages about grants, and returns how many there were. Those that a lock is wanted come with each poll of a
// process that waits.
func pushesOf(t *testing.T, addr string) func() int {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { client.Close() })
	channel := bucketOf("fencelock") + ":p:"
	all := client.PSubscribe(t.Context(), channel+"*")
	if _, err := all.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func() (n int) {
		must.OK(t, client.Publish(t.Context(), channel+"end", "").Err())
		for {
			m, err := all.ReceiveMessage(t.Context())
			switch {
			case err != nil:
				t.Fatal(err)
			case m.Channel == channel+"end":
				return n
			case !strings.HasSuffix(m.Channel, ":w"):
				n++
			}
		}
	}
}

// TestErrorInAScriptNotifiesNobody: the next process is not told that it holds the lock before that is written.
func TestErrorInAScriptNotifiesNobody(t *testing.T) {
	t.Parallel()
	server, ps, forbid, allow := forbidding(t, "lpush")
	held := ps[0].begin(ps[0].RWMutex("rw").RLock).wait(t, time.Minute)
	waiting := ps[1].begin(ps[1].RWMutex("rw").Lock)
	ps[1].await(fencelock.LeaseWaiting, 1)
	forbid()
	pushes := pushesOf(t, server.Addr)
	fails(t, held)
	if n := pushes(); n > 0 {
		t.Errorf("the script has notified %d processes, and then failed", n)
	}
	allow()
	lease := waiting.wait(t, time.Minute)
	if other, err := ps[2].RWMutex("rw").TryLock(t.Context()); !errors.Is(err, fencelock.ErrBusy) || !lease.Valid() {
		t.Errorf("beside a holder: %v, %v; the holder: %v", other, err, lease.Err())
	}
}

// TestErrorInAScriptKeepsWhatMinHoldKeeps: the grant of a permit that is only kept gets another field, and the old one goes
// last.
func TestErrorInAScriptKeepsWhatMinHoldKeeps(t *testing.T) {
	t.Parallel()
	server, ps, forbid, allow := forbidding(t, "hset")
	held := ps[0].begin(ps[0].permit("kept", fencelock.MinHold(time.Minute))).wait(t, time.Minute)
	forbid()
	fails(t, held)
	if n, err := server.Do("HLEN", bucketOf("fencelock")+":g:kept").Int(); err != nil || n != 1 {
		t.Errorf("the lock has %d grants, %v", n, err)
	}
	allow()
	if lease, err := ps[2].Semaphore("kept", 1).TryAcquire(t.Context(), 1); !errors.Is(err, fencelock.ErrBusy) {
		t.Errorf("a permit that MinHold keeps: got %v, %v", lease, err)
	}
}
