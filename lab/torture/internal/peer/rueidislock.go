// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/lab/internal/lock"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

type rueidisLocks struct {
	l   rueidislock.Locker
	ttl time.Duration
}

// openRueidislock connects, again and again if the server is down: a client that
// was killed must come back.
func openRueidislock(s lock.Spec) (lock.Locks, error) {
	var l rueidislock.Locker
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		l, err = rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: s.Reach()[:1], ForceSingleClient: true},
			KeyValidity:  s.TTL, TryNextAfter: 200 * time.Millisecond,
		})
		if err == nil {
			return &rueidisLocks{l, s.TTL}, nil
		}
	}
	return nil, err
}

// Lock implements lock.Locks.
func (r *rueidisLocks) Lock(ctx context.Context, name string) (lock.Held, error) {
	// The context that it is given bounds the holding too, so the workload's, which
	// bounds the waiting, must not be it.
	renewal, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	c, release, err := r.l.WithContext(renewal, name)
	if !stop() && err == nil { // the wait was given up when it was granted
		release()
		err = context.Cause(ctx)
	}
	if err != nil {
		end()
		return nil, err
	}
	return &held{ctx: c, cancel: release, half: r.ttl / 2, unlock: func(context.Context) error {
		// It does not say what came of it. If its context had ended before, it was
		// not the holder who gave the lock back.
		over := c.Err()
		release()
		end()
		return over
	}}, nil
}

// Close implements lock.Locks.
func (r *rueidisLocks) Close(context.Context) error {
	r.l.Close()
	return nil
}
