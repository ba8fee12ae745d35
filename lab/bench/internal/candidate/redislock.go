// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
)

// Redislock is bsm/redislock with a back-off as its README shows one; it has none
// by default, and then does not wait.
var Redislock = newRedislock("redislock", "go-redis, TTL 8 s, ExponentialBackoff(16 ms, 512 ms)",
	func() redislock.RetryStrategy {
		return redislock.ExponentialBackoff(16*time.Millisecond, 512*time.Millisecond)
	})

// RedislockTuned polls more often, which suits a lock that is held for a
// millisecond by a few. Every waiter costs the server more for it.
var RedislockTuned = newRedislock("redislock-tuned", "go-redis, TTL 8 s, LinearBackoff(1 ms)",
	func() redislock.RetryStrategy { return redislock.LinearBackoff(time.Millisecond) })

// redislockTTL is that of redsync, so that they differ in what they do.
const redislockTTL = 8 * time.Second

func newRedislock(name, settings string, retry func() redislock.RetryStrategy) *Candidate {
	return &Candidate{
		Name: name, Server: "redis", Bare: "bare-goredis", Settings: settings, Waits: true,
		Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
			client := newGoRedis(at.Addr)
			return sharing(n, func() { _ = client.Close() }, func(users *shared) Locker {
				return &redisLocker{users, redislock.New(client), retry}
			}), nil
		},
	}
}

type redisLocker struct {
	*shared
	client *redislock.Client
	retry  func() redislock.RetryStrategy // has a state: one for each acquisition
}

// Lock waits for the lock beyond what redislock thinks is enough, its TTL. Nothing renews it.
func (r *redisLocker) Lock(ctx context.Context, name string) (Held, error) {
	for {
		l, err := r.client.Obtain(ctx, name, redislockTTL, &redislock.Options{RetryStrategy: r.retry()})
		if err == nil || ctx.Err() != nil || !errors.Is(err, redislock.ErrNotObtained) && !errors.Is(err, context.DeadlineExceeded) {
			return redisLock{l}, err
		}
	}
}

type redisLock struct{ *redislock.Lock }

// Unlock implements Held.
func (l redisLock) Unlock(context.Context) error { return l.Release(context.Background()) }
