// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore/redissonstore"
	"github.com/redis/go-redis/v9"
)

// A subscription does not show that a waiter needs a message: its attempt after the subscription may come after the unlock. So a
// scene unlocks when the waiter has found the lock held after that.

// waiter is a Go process that counts its attempts.
type waiter struct {
	*fencelock.Client
	refused *refusals
}

// waiter returns a Go process that waits for a lock.
func (s *scene) waiter(ttl time.Duration) *waiter {
	s.Helper()
	client, refused := redis.NewClient(&redis.Options{Addr: s.server.Addr}), &refusals{}
	client.AddHook(refused)
	return &waiter{s.clientOf(storeAt(s, client, s.kind), ttl), refused}
}

// locking takes a lock in the background, and returns when it waits for a message.
func (w *waiter) locking(t testing.TB, key string, take func(context.Context) (*fencelock.Lease, error)) <-chan result {
	t.Helper()
	before := w.refused.count(key)
	c := taking(t, take)
	must.OK(t, servers.Await("a Go process listens and finds "+key+" held", func() bool { return w.refused.count(key) >= before+2 }))
	return c
}

// refusals is a hook of go-redis that counts the attempts which found a lock held, by its key.
type refusals struct {
	mu sync.Mutex
	by map[string]int
}

func (r *refusals) count(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[key]
}

// DialHook implements redis.Hook.
func (*refusals) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (*refusals) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (r *refusals) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if reply, ok := cmd.(interface{ Slice() ([]any, error) }); ok && err == nil && strings.HasPrefix(cmd.Name(), "eval") {
			if values, err := reply.Slice(); err == nil && len(values) > 0 && values[0] == "busy" {
				r.note(cmd.Args())
			}
		}
		return err
	}
}

// note counts for each word of a command, one of which is the key.
func (r *refusals) note(args []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]int{}
	}
	var words []string
	for _, a := range args {
		words = append(words, fmt.Sprint(a))
	}
	slices.Sort(words)
	for _, w := range slices.Compact(words) {
		r.by[w]++
	}
}

// waits waits until a Java thread has begun to wait for a message. It has found the lock held after its subscription.
func (s *scene) waits(java *peer, actor string) {
	s.Helper()
	must.OK(s, servers.Await(actor+" waits", func() bool { return java.Do(actor, "WAITS", s.kind, s.name).Word == "ok" }))
}

// lasts lets the lock of a Go holder last longer than a test waits. The TTL of a read-write lock is shorter than that, and a Java
// waiter that gets no message attempts again when the lease that it saw has ended.
func (s *scene) lasts() {
	s.Helper()
	if n, err := s.server.Do("PEXPIRE", s.name, long.Milliseconds()).Int(); err != nil || n != 1 {
		s.Fatalf("PEXPIRE of a lock that Go holds: %d, %v", n, err)
	}
}

// wokenSoon waits for a lease that came by a message. A Go waiter of a read-write lock polls at the end of its TTL.
func (s *scene) wokenSoon(c <-chan result, since time.Time) *fencelock.Lease {
	s.Helper()
	r := s.granted(c)
	if took := r.at.Sub(since); took > redissonstore.MaxReadWriteTTL/2 {
		s.Errorf("woken after %v, as if by a poll", took)
	}
	return r.lease
}
