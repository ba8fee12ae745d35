// SPDX-License-Identifier: Apache-2.0

package migrations

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/redis/go-redis/v9"
)

// An RLock is a hash with one field for its owner, and the time to live of the key is
// that of the lease. A client that releases it notifies the waiters on a channel.
var (
	takeRLock = redis.NewScript(`
		if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
		redis.call('HSET', KEYS[1], ARGV[1], 1)
		return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)
	keepRLock = redis.NewScript(`
		if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
		return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)
	giveRLock = redis.NewScript(`
		if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
		redis.call('DEL', KEYS[1])
		redis.call('PUBLISH', ARGV[2], '0')
		return 1`)
)

var errRLockLost = errors.New("the RLock is another's")

// withRedisson does the work while holding fencelock's lock and an RLock, as getLock
// of Redisson makes it, on one server or Sentinel. The name must not have a { in it.
func withRedisson(ctx context.Context, locks *fencelock.Client, client redis.Scripter, name string, do work) error {
	return locks.Do(ctx, name, func(ctx context.Context, l *fencelock.Lease) (err error) {
		const lease = 30 * time.Second // lockWatchdogTimeout
		owner := rand.Text() + ":1"    // never used again, so it never re-enters
		run := func(ctx context.Context, script *redis.Script, arg any) error {
			done, err := script.Run(ctx, client, []string{name}, owner, arg).Bool()
			if err == nil && !done {
				err = errRLockLost
			}
			return err
		}
		for err = run(ctx, takeRLock, lease.Milliseconds()); errors.Is(err, errRLockLost); err = run(ctx, takeRLock, lease.Milliseconds()) {
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err != nil {
			return err // the lock may have been taken anyway; then it ends with its lease
		}
		held, stop := keep(ctx, lease/3, func(ctx context.Context) error { return run(ctx, keepRLock, lease.Milliseconds()) })
		defer func() {
			stop()
			err = errors.Join(err, run(context.WithoutCancel(ctx), giveRLock, "redisson_lock__channel:{"+name+"}"))
		}()
		return do(held, l)
	})
}
