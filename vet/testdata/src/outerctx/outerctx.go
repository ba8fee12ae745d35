// SPDX-License-Identifier: Apache-2.0

package outerctx

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
)

var locks *fencelock.Client

func save(ctx context.Context, id string) error          { return nil }
func closeAll(ctx context.Context) error                 { return nil }
func audit(ctx context.Context)                          {}
func user(ctx context.Context) string                    { return "" }
func pack(ctx context.Context, l *fencelock.Lease) error { return nil }
func each(ctx context.Context, fn func(context.Context) error) error {
	return fn(ctx)
}

// Reported.

func outer(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		return save(ctx, "1") // want `ctx does not end when the lock is lost: use held`
	})
}

func beside(ctx context.Context) error {
	return locks.Mutex("a").Do(ctx, func(held context.Context, l *fencelock.Lease) error {
		if err := save(held, "1"); err != nil {
			return err
		}
		return save(ctx, "2") // want `ctx does not end when the lock is lost: use held`
	})
}

func reader(ctx context.Context) error {
	return locks.RWMutex("a").DoRead(ctx, func(held context.Context, _ *fencelock.Lease) error {
		wait, cancel := context.WithTimeout(ctx, time.Second) // want `ctx does not end`
		defer cancel()
		return save(wait, "1")
	})
}

func once(ctx context.Context) error {
	_, err := locks.Once("a", time.Hour).Do(ctx, "1", func(run context.Context, l *fencelock.Lease) error {
		return each(ctx, func(ctx context.Context) error { return save(ctx, "1") }) // want `ctx does not end when the lock is lost: use run`
	})
	return err
}

func leader(ctx context.Context) error {
	return locks.Election("a").Run(ctx, func(term context.Context, l *fencelock.Lease) error {
		for {
			select {
			case <-term.Done():
				return term.Err()
			case <-time.After(time.Second):
				if err := save(ctx, "1"); err != nil { // want `ctx does not end when the lock is lost: use term`
					return err
				}
			}
		}
	})
}

func unnamed(ctx context.Context) error {
	return locks.Do(ctx, "a", func(_ context.Context, l *fencelock.Lease) error {
		return save(ctx, "1") // want `ctx does not end when the lock is lost: use the context of the function`
	})
}

type service struct{ ctx context.Context }

func (s *service) field() error {
	return locks.Do(s.ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		return save(s.ctx, "1") // want `s.ctx does not end`
	})
}

func shortWait(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return locks.Do(wait, "a", func(held context.Context, l *fencelock.Lease) error {
		return save(ctx, "1") // want `ctx does not end when the lock is lost: use held, or l.WithContext\(ctx\)`
	})
}

func derived(ctx context.Context) error {
	other, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		return save(other, "1") // want `other does not end when the lock is lost: use held, or a context made from held`
	})
}

func loop(ctx context.Context) error {
	return locks.Election("a").Run(ctx, func(context.Context, *fencelock.Lease) error {
		for ctx.Err() == nil { // want `ctx does not end when the lock is lost`
			time.Sleep(time.Second)
		}
		return nil
	})
}

func nested(ctx context.Context) error {
	return locks.Do(ctx, "a", func(a context.Context, l *fencelock.Lease) error {
		return locks.Do(a, "b", func(b context.Context, l *fencelock.Lease) error {
			return save(a, "1") // want `a does not end when the lock is lost: use b`
		})
	})
}

func otherName(ctx context.Context) error {
	return locks.Do(ctx, "a", func(a context.Context, l *fencelock.Lease) error {
		return locks.Do(ctx, "b", pack) // want `ctx does not end when the lock is lost: use a`
	})
}

func token(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, _ *fencelock.Lease) error {
		l := fencelock.FromContext(ctx, "a") // want `ctx does not end when the lock is lost: use held`
		return pack(held, l)
	})
}

func waited(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, _ *fencelock.Lease) error {
		var wg sync.WaitGroup
		wg.Add(1)
		go func() {
			defer wg.Done()
			_ = save(ctx, "1") // want `ctx does not end when the lock is lost: use held`
		}()
		wg.Wait()
		return nil
	})
}

func wrapped(ctx context.Context, with func(context.Context, func(context.Context, *fencelock.Lease) error) error) error {
	return with(ctx, func(held context.Context, l *fencelock.Lease) error {
		return save(ctx, "1") // want `ctx does not end when the lock is lost: use held`
	})
}

func strangerAlone(ctx, request context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		return save(request, "1") // want `request does not end when the lock is lost: use held`
	})
}

func copied(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		c := ctx // want `ctx does not end when the lock is lost: use held`
		return save(c, "1")
	})
}

func inAVariable(ctx context.Context) error {
	fn := func(held context.Context, l *fencelock.Lease) error {
		return save(ctx, "1") // want `ctx does not end when the lock is lost: use held`
	}
	return locks.Do(ctx, "a", fn)
}

// Not reported.

func shadowed(ctx context.Context) error {
	return locks.Do(ctx, "a", func(ctx context.Context, l *fencelock.Lease) error { return save(ctx, "1") })
}

func ofTheLease(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		both, stop := l.WithContext(ctx)
		defer stop()
		return save(both, "1")
	})
}

func detached(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		if err := save(held, "1"); err != nil {
			return save(context.WithoutCancel(ctx), "failed")
		}
		return nil
	})
}

func detachedBefore(ctx context.Context) error {
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		return save(after, "1")
	})
}

func background(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		return save(context.Background(), "1")
	})
}

func cleanup(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		defer audit(ctx)
		defer func() { _ = save(ctx, "end") }()
		stop := context.AfterFunc(held, func() { _ = save(ctx, "lost") })
		defer stop()
		if err := save(held, "1"); err != nil {
			return closeAll(ctx)
		}
		return nil
	})
}

func beyond(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		go audit(ctx) // it goes on after the lock
		return save(held, "1")
	})
}

func words(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		slog.InfoContext(ctx, "begin", "user", user(ctx))
		return save(held, "1")
	})
}

func reason(ctx context.Context) error {
	return locks.Election("a").Run(ctx, func(term context.Context, l *fencelock.Lease) error {
		<-term.Done()
		if ctx.Err() != nil {
			return nil // the process ends
		}
		return context.Cause(term)
	})
}

func strangers(ctx, shutdown context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		if err := save(held, "1"); err != nil {
			return save(shutdown, "2")
		}
		return nil
	})
}

func reused(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		ctx = held
		return save(ctx, "1")
	})
}

func ofTheTerm(ctx context.Context) error {
	return locks.Election("a").Run(ctx, func(ctx context.Context, term *fencelock.Lease) error {
		return save(term.Context(), "1")
	})
}

func noLease(ctx context.Context) error {
	return each(ctx, func(inner context.Context) error { return save(ctx, "1") })
}

func (s *service) otherField(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		return save(s.ctx, "1")
	})
}
