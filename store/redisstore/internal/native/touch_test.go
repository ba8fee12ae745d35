// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// TestGraceBeginsEverywhere: the grace of all buckets begins with the first session of a new
// namespace, and after a data loss with the first that finds it. It is paid once, and
// not by the first lock in each of them.
func TestGraceBeginsEverywhere(t *testing.T) {
	t.Parallel()
	const buckets = 8
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	defer client.Close()
	store, err := newGoRedis(client, &native.Options{Namespace: "orders", Grace: true, Buckets: buckets})
	must.OK(t, err)
	ctx := t.Context()
	req := driver.OpenRequest{Shard: store.Shard("x"), ID: driver.NewSessionID(), TTL: 10 * time.Second}
	open := func() driver.Session {
		t.Helper()
		s, _, err := store.Open(ctx, req)
		must.OK(t, err)
		req.Before = s
		return s
	}
	begun := func() bool {
		keys, err := client.Keys(ctx, "orders:{*}").Result()
		return err == nil && len(keys) == buckets
	}
	s := open()
	redistest.WaitFor(t, "a new namespace has begun in all buckets", begun)
	must.OK(t, client.FlushAll(ctx).Err())
	if _, err := s.KeepAlive(ctx); !errors.Is(err, driver.ErrReset) {
		t.Fatalf("after a data loss: %v", err)
	}
	open()
	redistest.WaitFor(t, "the grace has begun in all buckets", begun)
}

// TestGraceBeginsBehindARound: data is lost while a process calls the buckets one by one, also
// in buckets that it has already called. The loss shows in the bucket that is called next,
// where the round and the session that finds the loss see the same new incarnation.
func TestGraceBeginsBehindARound(t *testing.T) {
	t.Parallel()
	const buckets = 8
	server := redistest.Start(t)
	plain := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	defer plain.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	defer client.Close()
	second, last := newTurnstile("orders:{orders:1."), newTurnstile("orders:{orders:7.")
	client.AddHook(second)
	client.AddHook(last)
	store, err := newGoRedis(client, &native.Options{Namespace: "orders", Grace: true, Buckets: buckets})
	must.OK(t, err)
	ctx := t.Context()
	open := func() {
		t.Helper()
		req := driver.OpenRequest{Shard: "7", ID: driver.NewSessionID(), TTL: 10 * time.Second}
		if _, _, err := store.Open(ctx, req); err != nil {
			t.Fatal(err)
		}
	}
	second.armed.Store(true) // only the round calls it
	open()
	<-second.reached
	last.armed.Store(true)
	close(second.pass)
	<-last.reached
	must.OK(t, plain.FlushAll(ctx).Err())
	open()
	close(last.pass)
	redistest.WaitFor(t, "the grace has begun in all buckets", func() bool {
		keys, err := plain.Keys(ctx, "orders:{*}").Result()
		return err == nil && len(keys) == buckets
	})
}

// turnstile keeps the first command for a key that comes after it was armed.
type turnstile struct {
	key     string // how it begins
	armed   atomic.Bool
	reached chan struct{}
	pass    chan struct{}
}

func newTurnstile(key string) *turnstile {
	return &turnstile{key: key, reached: make(chan struct{}), pass: make(chan struct{})}
}

// ProcessHook implements redis.Hook.
func (h *turnstile) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		ours := slices.ContainsFunc(cmd.Args(), func(arg any) bool { return strings.HasPrefix(fmt.Sprint(arg), h.key) })
		if ours && h.armed.CompareAndSwap(true, false) {
			close(h.reached)
			<-h.pass
		}
		return next(ctx, cmd)
	}
}

// DialHook implements redis.Hook.
func (h *turnstile) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook. The store sends no scripts this way.
func (h *turnstile) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
