// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fencelock/fencelock/lab/internal/lock"
	"github.com/go-redsync/redsync/v4"
	pools "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

type redsyncLocks struct {
	rs      *redsync.Redsync
	ttl     time.Duration
	clients []*redis.Client
}

// openRedsync uses all servers, as its authors mean it.
func openRedsync(s lock.Spec) (lock.Locks, error) {
	r := &redsyncLocks{ttl: s.TTL}
	var all []pools.Pool
	for _, addr := range s.Reach() {
		c := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, DisableIdentity: true})
		r.clients = append(r.clients, c)
		all = append(all, goredis.NewPool(c))
	}
	r.rs = redsync.New(all...)
	return r, nil
}

// Lock implements lock.Locks. It waits beyond the tries that redsync makes.
func (r *redsyncLocks) Lock(ctx context.Context, name string) (lock.Held, error) {
	for {
		m := r.rs.NewMutex(name, redsync.WithExpiry(r.ttl), redsync.WithFailFast(true),
			redsync.WithRetryDelayFunc(func(int) time.Duration { return 20*time.Millisecond + rand.N(40*time.Millisecond) }))
		err := m.LockContext(ctx)
		if err == nil {
			return r.hold(m), nil
		}
		if ctx.Err() != nil {
			return nil, errors.Join(err, ctx.Err())
		}
	}
}

// hold renews each third of the expiry. Its context ends at the deadline that
// redsync reports, or when redsync returns that the lock is gone.
func (r *redsyncLocks) hold(m *redsync.Mutex) *held {
	h := &held{}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.deadline.Store(m.Until().UnixNano())
	over := make(chan struct{})
	go r.renew(h, m, over)
	h.unlock = func(ctx context.Context) error {
		h.cancel()
		<-over // a Mutex is not for two at once
		ctx, cancel := context.WithTimeout(ctx, r.ttl)
		defer cancel()
		ok, err := m.UnlockContext(ctx)
		if err == nil && !ok {
			return errors.New("redsync: it was not held any more")
		}
		return err
	}
	return h
}

func (r *redsyncLocks) renew(h *held, m *redsync.Mutex, over chan struct{}) {
	defer close(over)
	tick := time.NewTicker(r.ttl / 3)
	defer tick.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-time.After(time.Until(h.Deadline())):
			h.cancel()
			return
		case <-tick.C:
			ctx, cancel := context.WithDeadline(h.ctx, h.Deadline())
			ok, err := m.ExtendContext(ctx)
			cancel()
			if ok && err == nil {
				h.deadline.Store(m.Until().UnixNano())
			}
			var taken *redsync.ErrTaken
			if errors.Is(err, redsync.ErrExtendFailed) || errors.As(err, &taken) {
				h.cancel()
				return
			}
		}
	}
}

// Close implements lock.Locks.
func (r *redsyncLocks) Close(context.Context) error {
	for _, c := range r.clients {
		_ = c.Close()
	}
	return nil
}
