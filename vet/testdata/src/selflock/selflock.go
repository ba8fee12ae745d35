// SPDX-License-Identifier: Apache-2.0

package selflock

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
)

var locks *fencelock.Client

func work(ctx context.Context, l *fencelock.Lease) error { return nil }
func next() string                                       { return "" }

// Reported.

func do(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		return locks.Do(ctx, "a", work) // want `the lock "a" is held here, and under another context locks.Do waits for itself: use held`
	})
}

func lock(ctx context.Context, id int) error {
	return locks.Do(ctx, fmt.Sprintf("orders/%d", id), func(held context.Context, l *fencelock.Lease) error {
		again, err := locks.Mutex(fmt.Sprintf("orders/%d", id)).Lock(ctx) // want `is held here, and under another context`
		if err != nil {
			return err
		}
		return again.Unlock(held)
	})
}

const name = "a"

func constant(ctx context.Context) error {
	return locks.Mutex("a").Do(ctx, func(held context.Context, l *fencelock.Lease) error {
		return locks.Mutex(name).Do(context.Background(), work) // want `the lock name is held here`
	})
}

func handle(ctx context.Context, id string) error {
	mu := locks.RWMutex("orders/" + id)
	return mu.DoRead(ctx, func(held context.Context, l *fencelock.Lease) error {
		return mu.Do(ctx, work) // want `waits for itself: unlock the read lock first`
	})
}

type service struct {
	locks *fencelock.Client
	mu    *fencelock.Mutex
}

func (s *service) field(ctx context.Context) error {
	return s.mu.Do(ctx, func(_ context.Context, l *fencelock.Lease) error {
		return s.mu.Do(ctx, work) // want `the lock of s.mu is held here, and under another context s.mu.Do waits for itself: use the context of the function`
	})
}

func timeout(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		wait, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return locks.Do(wait, "a", work) // want `waits for itself: use held`
	})
}

func between(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	return locks.Do(ctx, "a", work) // want `waits for itself: use l.Context\(\)`
}

func through(ctx context.Context) error {
	return locks.Do(ctx, "a", func(a context.Context, l *fencelock.Lease) error {
		return locks.Do(a, "b", func(b context.Context, l *fencelock.Lease) error {
			return locks.Do(ctx, "a", work) // want `the lock "a" is held here, and .*: use b`
		})
	})
}

func deferInALoop(ctx context.Context, ids []string) error {
	for range ids {
		l, err := locks.Mutex("a").Lock(ctx) // want `the defer in this loop unlocks the lock "a" at the end of the function: the next round waits for itself`
		if err != nil {
			return err
		}
		defer l.Unlock(ctx)
	}
	return nil
}

// Not reported.

func reentry(ctx context.Context) error {
	return locks.Do(ctx, "a", func(ctx context.Context, l *fencelock.Lease) error {
		return locks.Do(ctx, "a", work)
	})
}

func reentryDerived(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		wait, cancel := context.WithTimeout(held, time.Second)
		defer cancel()
		if err := locks.Do(wait, "a", work); err != nil {
			return err
		}
		return locks.Do(l.Context(), "a", work)
	})
}

func otherName(ctx context.Context, a, b string) error {
	return locks.Do(ctx, a, func(held context.Context, l *fencelock.Lease) error {
		return locks.Do(context.Background(), b, work)
	})
}

func otherClient(ctx context.Context, other *fencelock.Client) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		return other.Do(ctx, "a", work)
	})
}

func changing(ctx context.Context) error {
	return locks.Do(ctx, next(), func(held context.Context, l *fencelock.Lease) error {
		return locks.Do(ctx, next(), work)
	})
}

func changed(ctx context.Context) error {
	id := "1"
	return locks.Do(ctx, id, func(held context.Context, l *fencelock.Lease) error {
		id = "2"
		return locks.Do(ctx, id, work)
	})
}

func try(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		again, err := locks.Mutex("a").TryLock(ctx)
		if err != nil {
			return err
		}
		return again.Unlock(ctx)
	})
}

func readers(ctx context.Context) error {
	mu := locks.RWMutex("a")
	return mu.DoRead(ctx, func(held context.Context, l *fencelock.Lease) error { return mu.DoRead(ctx, work) })
}

func semaphores(ctx context.Context) error {
	sem := locks.Semaphore("a", 3)
	return sem.Do(ctx, 1, func(held context.Context, l *fencelock.Lease) error { return sem.Do(ctx, 1, work) })
}

func reentrantAs(ctx context.Context) error {
	mu := locks.Mutex("a", fencelock.ReentrantAs("job 7"))
	return mu.Do(ctx, func(held context.Context, l *fencelock.Lease) error { return mu.Do(ctx, work) })
}

func goroutine(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		go func() { _ = locks.Do(ctx, "a", work) }() // it waits for this one to end
		return nil
	})
}

func later(ctx context.Context, queue chan<- func() error) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		queue <- func() error { return locks.Do(ctx, "a", work) }
		return nil
	})
}

func unlocked(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	if err := l.Unlock(ctx); err != nil {
		return err
	}
	return locks.Do(ctx, "a", work)
}

func ofTheLease(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	ctx, stop := l.WithContext(ctx)
	defer stop()
	return locks.Do(ctx, "a", work)
}

func busy(ctx context.Context) error {
	l, err := locks.Mutex("a").TryLock(ctx)
	if err != nil {
		return locks.Do(ctx, "a", work)
	}
	return l.Unlock(ctx)
}

func deferForEach(ctx context.Context, ids []string) error {
	for _, id := range ids {
		l, err := locks.Mutex(id).Lock(ctx)
		if err != nil {
			return err
		}
		defer l.Unlock(ctx)
	}
	return nil
}

func deferInARetry(ctx context.Context) error {
	for {
		l, err := locks.Mutex("a").Lock(ctx)
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		defer l.Unlock(ctx)
		return locks.Do(l.Context(), "b", work)
	}
}
