// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/lab/internal/lock"
)

// The names that several clients use.
const (
	contended = 4
	together  = 4 // those of LockAll
)

func lastingName(who string, i int) string { return fmt.Sprintf("lasting-%s-%d", who, i) }

// commonNames are all names but the fresh ones.
func commonNames(whos ...string) (names []string) {
	for i := range contended {
		names = append(names, fmt.Sprint("contended-", i))
	}
	for i := range together {
		names = append(names, fmt.Sprint("together-", i))
	}
	for _, who := range whos {
		for i := range lasting {
			names = append(names, lastingName(who, i))
		}
	}
	return append(names, "rw", "semaphore")
}

// turn is one operation, chosen at random.
func (k *client) turn(ctx context.Context, rng *rand.Rand) error {
	// Some give up before they are served, others wait for as long as a fault lasts.
	ctx, cancel := context.WithTimeout(ctx, time.Duration(20+rng.Int64N(2*k.cfg.Spec.TTL.Milliseconds()))*time.Millisecond)
	defer cancel()
	name := fmt.Sprint("contended-", rng.IntN(contended))
	switch n := rng.IntN(100); {
	case n < 40:
		return ended(k.hold(ctx, rng, k.c.Mutex(name).Lock))
	case n < 60:
		return ended(k.hold(ctx, rng, k.c.Mutex(k.fresh(rng)).Lock))
	case n < 66:
		return ended(k.hold(ctx, rng, k.c.Mutex(name).TryLock))
	case n < 70:
		return ended(k.hold(ctx, rng, k.c.Mutex(name, fencelock.Linger(time.Second)).Lock))
	case n < 76:
		return ended(k.hold(ctx, rng, k.c.RWMutex("rw").RLock))
	case n < 80:
		return ended(k.hold(ctx, rng, k.c.RWMutex("rw").Lock))
	case n < 85:
		return ended(k.hold(ctx, rng, func(ctx context.Context) (*fencelock.Lease, error) {
			return k.c.Semaphore("semaphore", 2).Acquire(ctx, 1)
		}))
	case n < 88:
		return ended(k.hold(ctx, rng, k.c.Mutex(k.fresh(rng), fencelock.MaxHold(k.cfg.Spec.TTL/2)).Lock))
	case n < 93:
		return ended(k.several(ctx, rng))
	case n < 96:
		_, err := k.c.Inspect(ctx, name)
		return ended(err)
	}
	return ended(k.visit(ctx, rng))
}

// ended drops the errors that are no news: a caller that gave up, a lock that is held, a lease that was lost
// to a fault, what a store does not have.
func ended(err error) error {
	for _, usual := range []error{context.DeadlineExceeded, context.Canceled, fencelock.ErrBusy, fencelock.ErrGrace, fencelock.ErrLost, fencelock.ErrUnsupported} {
		if errors.Is(err, usual) {
			return nil
		}
	}
	return err
}

// fresh is a name that was not used before, or not for long.
func (k *client) fresh(rng *rand.Rand) string {
	return fmt.Sprintf("fresh-%s-%d", k.cfg.Spec.Who, rng.IntN(k.cfg.Fresh))
}

// hold acquires a lock, uses it for a moment and unlocks it.
func (k *client) hold(ctx context.Context, rng *rand.Rand, acquire func(context.Context) (*fencelock.Lease, error)) error {
	l, err := acquire(ctx)
	if err != nil {
		return err
	}
	pause(l.Context(), time.Duration(rng.Int64N(int64(30*time.Millisecond))))
	return l.Unlock(context.WithoutCancel(ctx))
}

// several acquires several locks together.
func (k *client) several(ctx context.Context, rng *rand.Rand) error {
	var names []string
	for _, i := range rng.Perm(together)[:together-1] {
		names = append(names, fmt.Sprint("together-", i))
	}
	set, err := k.c.LockAll(ctx, names)
	if err != nil {
		return err
	}
	pause(set.Context(), time.Duration(rng.Int64N(int64(30*time.Millisecond))))
	return set.Unlock(context.WithoutCancel(ctx))
}

// visit is a client with its own connections that comes and goes; sometimes it is closed without an unlock.
func (k *client) visit(ctx context.Context, rng *rand.Rand) error {
	locks, err := lock.Open(k.cfg.Spec)
	if err != nil {
		return err
	}
	held, err := locks.Lock(ctx, k.fresh(rng))
	if err == nil && rng.IntN(2) == 0 {
		err = held.Unlock(context.WithoutCancel(ctx))
	}
	closing, cancel := context.WithTimeout(context.Background(), 2*k.cfg.Spec.TTL)
	defer cancel()
	return errors.Join(err, locks.Close(closing))
}
