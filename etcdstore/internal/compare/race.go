// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/etcdstore"
	"github.com/fencelock/fencelock/etcdstore/internal/etcdtest"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// result is how often a second a lock was had, medians, and the median of the
// quotients of the repetitions.
type result struct {
	native, ours, ratio float64
}

func (r result) String() string {
	return fmt.Sprintf("concurrency.Mutex %.0f/s, etcdstore %.0f/s, ratio %.2f", r.native, r.ours, r.ratio)
}

// locker has a lock and gives it back.
type locker func(ctx context.Context) error

// race lets the sessions of either kind contend for one lock, in turns.
func race(ctx context.Context, cluster *etcdtest.Cluster, sessions, repetitions int, each time.Duration) (result, error) {
	native, endNative, err := natives(ctx, cluster, sessions)
	defer endNative()
	if err != nil {
		return result{}, err
	}
	ours, endOurs, err := own(ctx, cluster, sessions)
	defer endOurs()
	if err != nil {
		return result{}, err
	}
	var r struct{ native, ours, ratio []float64 }
	for i := -1; i < repetitions; i++ {
		a, err := rate(ctx, native, each)
		if err != nil {
			return result{}, fmt.Errorf("concurrency.Mutex: %w", err)
		}
		b, err := rate(ctx, ours, each)
		if err != nil {
			return result{}, fmt.Errorf("etcdstore: %w", err)
		}
		if i >= 0 { // the first round only warms up
			r.native, r.ours, r.ratio = append(r.native, a), append(r.ours, b), append(r.ratio, b/a)
		}
	}
	return result{median(r.native), median(r.ours), median(r.ratio)}, nil
}

// alternate lets one session of either kind have its lock in turns, and compares the
// medians of the times that takes: what else the machine does is the same for both.
func alternate(ctx context.Context, cluster *etcdtest.Cluster, times int) (result, error) {
	native, endNative, err := natives(ctx, cluster, 1)
	defer endNative()
	if err != nil {
		return result{}, err
	}
	ours, endOurs, err := own(ctx, cluster, 1)
	defer endOurs()
	if err != nil {
		return result{}, err
	}
	ctx = context.WithValue(ctx, insideKey{}, new(atomic.Int64))
	var took [2][]float64
	for i := -times / 10; i < times; i++ {
		for kind, l := range []locker{native[0], ours[0]} {
			start := time.Now()
			if err := l(ctx); err != nil {
				return result{}, err
			}
			if i >= 0 { // before that it only warms up
				took[kind] = append(took[kind], time.Since(start).Seconds())
			}
		}
	}
	a, b := median(took[0]), median(took[1])
	return result{1 / a, 1 / b, a / b}, nil
}

// rate counts how often a second the lock was had.
func rate(ctx context.Context, lockers []locker, each time.Duration) (float64, error) {
	var n, inside atomic.Int64
	var wg sync.WaitGroup
	failed := make(chan error, len(lockers))
	start := time.Now()
	end := start.Add(each)
	for _, l := range lockers {
		wg.Go(func() {
			for time.Now().Before(end) {
				if err := l(context.WithValue(ctx, insideKey{}, &inside)); err != nil {
					failed <- err
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	close(failed)
	return float64(n.Load()) / took.Seconds(), <-failed
}

type insideKey struct{}

// critical fails if somebody else is inside.
func critical(ctx context.Context) error {
	inside := ctx.Value(insideKey{}).(*atomic.Int64)
	defer inside.Add(-1)
	if inside.Add(1) != 1 {
		return errors.New("two have the lock at once")
	}
	return nil
}

// natives returns lockers of etcd's recipe, each with a client and a session.
func natives(ctx context.Context, cluster *etcdtest.Cluster, n int) (lockers []locker, end func(), err error) {
	var ends []func()
	end = func() { each(ends) }
	for range n {
		client, err := cluster.Client()
		if err != nil {
			return nil, end, err
		}
		ends = append(ends, func() { _ = client.Close() })
		s, err := concurrency.NewSession(client, concurrency.WithTTL(15), concurrency.WithContext(ctx))
		if err != nil {
			return nil, end, err
		}
		ends = append(ends, func() { _ = s.Close() })
		m := concurrency.NewMutex(s, "native/lock")
		lockers = append(lockers, func(ctx context.Context) error {
			if err := m.Lock(ctx); err != nil {
				return err
			}
			return errors.Join(critical(ctx), m.Unlock(ctx))
		})
	}
	return lockers, end, nil
}

// own returns lockers of ours, each with a client, a store and a session.
func own(ctx context.Context, cluster *etcdtest.Cluster, n int) (lockers []locker, end func(), err error) {
	var ends []func()
	end = func() { each(ends) }
	for range n {
		client, err := cluster.Client()
		if err != nil {
			return nil, end, err
		}
		ends = append(ends, func() { _ = client.Close() })
		store, err := etcdstore.New(client, nil)
		if err != nil {
			return nil, end, err
		}
		locks, err := fencelock.New(store, nil)
		if err != nil {
			return nil, end, err
		}
		ends = append(ends, func() { _ = locks.Close(context.WithoutCancel(ctx)) })
		m := locks.Mutex("lock")
		lockers = append(lockers, func(ctx context.Context) error {
			l, err := m.Lock(ctx)
			if err != nil {
				return err
			}
			return errors.Join(critical(ctx), l.Unlock(ctx))
		})
	}
	return lockers, end, nil
}

func each(ends []func()) {
	for _, f := range slices.Backward(ends) {
		f()
	}
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}
