// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	goredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	rueidispool "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
)

const redsyncSettings = "defaults: expiry 8 s, polls after 50 to 250 ms; called again when it gives up after 32 polls"

// RedsyncRueidis is redsync with rueidis as it comes.
var RedsyncRueidis = &Candidate{
	Name: "redsync-rueidis", Server: "redis", Bare: "bare-rueidis", Settings: redsyncSettings, Plain: []string{"set"}, Waits: true,
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) { return openRedsyncRueidis(at.Addr, n) },
}

// RedsyncTuned polls more often, which suits a lock that is held for a
// millisecond by a few. Every waiter costs the server more for it.
var RedsyncTuned = &Candidate{
	Name: "redsync-tuned", Server: "redis", Bare: "bare-rueidis", Settings: "rueidis; polls after 1 to 3 ms, forever", Plain: []string{"set"}, Waits: true,
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		return openRedsyncRueidis(at.Addr, n, redsync.WithTries(1<<30), redsync.WithRetryDelayFunc(func(int) time.Duration {
			return time.Millisecond + rand.N(2*time.Millisecond)
		}))
	},
}

// RedsyncGoRedis is redsync with go-redis as it comes.
var RedsyncGoRedis = &Candidate{
	Name: "redsync-goredis", Server: "redis", Bare: "bare-goredis", Settings: redsyncSettings, Plain: []string{"set"}, Waits: true,
	Open: func(_ context.Context, at Place, n int) ([]Locker, error) {
		client := newGoRedis(at.Addr)
		return openRedsync(goredis.NewPool(client), n, func() { _ = client.Close() }), nil
	},
}

func openRedsyncRueidis(addr string, n int, options ...redsync.Option) ([]Locker, error) {
	client, err := newRueidis(addr, n)
	if err != nil {
		return nil, err
	}
	return openRedsync(rueidispool.NewPool(rueidiscompat.NewAdapter(client)), n, client.Close, options...), nil
}

// openRedsync makes n lockers on one pool: redsync keeps nothing that would let
// the users of one pool know of each other.
func openRedsync(pool redis.Pool, n int, closeClient func(), options ...redsync.Option) []Locker {
	rs := redsync.New(pool)
	return sharing(n, closeClient, func(users *shared) Locker { return &redsyncLocker{users, rs, options} })
}

type redsyncLocker struct {
	*shared
	rs      *redsync.Redsync
	options []redsync.Option
}

// Lock waits for the lock beyond what redsync thinks is enough. Nothing renews it.
func (r *redsyncLocker) Lock(ctx context.Context, name string) (Held, error) {
	mu := r.rs.NewMutex(name, r.options...)
	for {
		err := mu.LockContext(ctx)
		var taken *redsync.ErrTaken
		if err == nil || ctx.Err() != nil || !errors.As(err, &taken) && !errors.Is(err, redsync.ErrFailed) {
			return redsyncMutex{mu}, err
		}
	}
}

type redsyncMutex struct{ *redsync.Mutex }

// Unlock implements Held.
func (m redsyncMutex) Unlock(context.Context) error {
	ok, err := m.UnlockContext(context.Background())
	if err == nil && !ok {
		err = errGone
	}
	return err
}
