// SPDX-License-Identifier: Apache-2.0

// Package selflocknames locks names that change, and makes contexts in many steps.
package selflocknames

import (
	"context"
	"fmt"

	"github.com/fencelock/fencelock"
)

var locks *fencelock.Client

type key int

type node struct {
	name string
	up   *node
}

func work(ctx context.Context, l *fencelock.Lease) error { return nil }
func parent(name string) string                          { return "" }

// Reported.

func manySteps(ctx context.Context) error {
	return locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		c := context.Background()
		c = context.WithValue(c, key(1), 1)
		c = context.WithValue(c, key(2), 2)
		c = context.WithValue(c, key(3), 3)
		c = context.WithValue(c, key(4), 4)
		c = context.WithValue(c, key(5), 5)
		c = context.WithValue(c, key(6), 6)
		c = context.WithValue(c, key(7), 7)
		c = context.WithValue(c, key(8), 8)
		c = context.WithValue(c, key(9), 9)
		c = context.WithValue(c, key(10), 10)
		c = context.WithValue(c, key(11), 11)
		c = context.WithValue(c, key(12), 12)
		return locks.Do(c, "a", work) // want `the lock "a" is held here`
	})
}

func changedBefore(ctx context.Context, name string) error {
	name = parent(name)
	return locks.Do(ctx, name, func(held context.Context, l *fencelock.Lease) error {
		return locks.Do(ctx, name, work) // want `the lock name is held here`
	})
}

// Not reported.

func parameter(ctx context.Context, name string) error {
	l, err := locks.Mutex(name).Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	name = parent(name)
	return locks.Do(ctx, name, work)
}

func inside(ctx context.Context, name string) error {
	return locks.Do(ctx, name, func(held context.Context, l *fencelock.Lease) error {
		name = parent(name)
		return locks.Do(ctx, name, work)
	})
}

func counter(ctx context.Context) error {
	i := 0
	l, err := locks.Mutex(fmt.Sprint("shard/", i)).Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	i++
	return locks.Mutex(fmt.Sprint("shard/", i)).Do(ctx, work)
}

func (n *node) climb(ctx context.Context) error {
	l, err := locks.Mutex(n.name).Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	for n.up != nil {
		if err := locks.Mutex(n.name).Do(ctx, work); err != nil {
			return err
		}
		n = n.up
	}
	return nil
}

func (n *node) field(ctx context.Context) error {
	l, err := locks.Mutex(n.name).Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	n.name = "b"
	return locks.Do(ctx, n.name, work)
}

func (n *node) toTheRoot(ctx context.Context) error {
	for ; n != nil; n = n.up {
		l, err := locks.Mutex(n.name).Lock(ctx)
		if err != nil {
			return err
		}
		defer l.Unlock(ctx)
	}
	return work(ctx, nil)
}

func handle(ctx context.Context, mu *fencelock.Mutex) error {
	l, err := mu.Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	mu = locks.Mutex("b")
	return mu.Do(ctx, work)
}

func methodExpressions(ctx context.Context, a, b *fencelock.Mutex) error {
	l, err := (*fencelock.Mutex).Lock(a, ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	return (*fencelock.Mutex).Do(b, ctx, work)
}

func tryFirst(ctx context.Context) error {
	mu := locks.Mutex("a")
	var l *fencelock.Lease
	var err error
	if l, err = mu.TryLock(ctx); err != nil {
		l, err = mu.Lock(ctx)
	}
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	return work(ctx, l)
}
