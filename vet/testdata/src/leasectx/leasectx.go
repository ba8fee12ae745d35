// SPDX-License-Identifier: Apache-2.0

package leasectx

import (
	"context"
	"sync"

	"github.com/fencelock/fencelock"
)

var locks *fencelock.Client

func work(ctx context.Context) error                    { return nil }
func watch(l *fencelock.Lease)                          {}
func save(ctx context.Context, t fencelock.Token) error { return nil }

// Reported.

func goroutine(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	go func() { // want `the goroutine works under the lease l without its context; work with l.Context\(\)`
		defer l.Unlock(ctx)
		_ = work(ctx)
	}()
	return nil
}

func group(ctx context.Context, wg *sync.WaitGroup) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	wg.Go(func() { // want `the goroutine works under the lease l without its context`
		_ = work(ctx)
		_ = l.Unlock(ctx)
	})
	return nil
}

func blindWorker(ctx context.Context, l *fencelock.Lease) {
	defer l.Unlock(ctx)
	_ = work(ctx)
}

func argument(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	go blindWorker(ctx, l) // want `the goroutine gets the lease l and works without its context`
	return nil
}

type job struct {
	name  string
	lease *fencelock.Lease
}

func keep(ctx context.Context, jobs map[string]*job) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	jobs["a"] = &job{name: "a", lease: l} // want `the lease in the field lease is only unlocked: nothing here notices when it is lost`
	return nil
}

func (j *job) end(ctx context.Context) error {
	if j.lease == nil {
		return nil
	}
	return j.lease.Unlock(ctx)
}

type shard struct {
	mu   sync.Mutex
	held map[string]*fencelock.Lease
}

func (s *shard) take(ctx context.Context, name string) error {
	l, err := locks.Mutex(name).Lock(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.held == nil {
		s.held = map[string]*fencelock.Lease{}
	}
	s.held[name] = l // want `the lease in the field held is only unlocked`
	s.mu.Unlock()
	return nil
}

func (s *shard) give(ctx context.Context, name string) error {
	l := s.held[name]
	delete(s.held, name)
	return l.Unlock(ctx)
}

func channel(ctx context.Context) error {
	ch := make(chan *fencelock.Lease, 1)
	go func() {
		for l := range ch {
			_ = work(ctx)
			_ = l.Unlock(ctx)
		}
	}()
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	ch <- l // want `the lease in the channel ch is only unlocked`
	return nil
}

// Not reported.

func withContext(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	go func() {
		defer l.Unlock(ctx)
		held, stop := l.WithContext(ctx)
		defer stop()
		_ = work(held)
	}()
	return nil
}

func contextBefore(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	held := l.Context()
	go func() {
		defer l.Unlock(ctx)
		_ = work(held)
	}()
	return nil
}

func withToken(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	go func() {
		defer l.Unlock(ctx)
		_ = save(ctx, l.Token())
	}()
	return nil
}

func onlyUnlock(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	go func() { _ = l.Unlock(ctx) }()
	return nil
}

func seeingWorker(ctx context.Context, l *fencelock.Lease) {
	defer l.Unlock(ctx)
	_ = work(l.Context())
}

func seeingArgument(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	go seeingWorker(ctx, l)
	return nil
}

func foreign(ctx context.Context, start func(context.Context, *fencelock.Lease)) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	go start(ctx, l)
	return nil
}

func innerContext(ctx context.Context) error {
	return locks.Do(ctx, "a", func(ctx context.Context, l *fencelock.Lease) error {
		go func() { _ = work(ctx) }()
		return nil
	})
}

type seen struct{ lease *fencelock.Lease }

func (s *seen) take(ctx context.Context) (err error) {
	s.lease, err = locks.Mutex("a").Lock(ctx)
	return err
}

func (s *seen) work() error { return work(s.lease.Context()) }

func (s *seen) end(ctx context.Context) error { return s.lease.Unlock(ctx) }

type watched struct{ lease *fencelock.Lease }

func (w *watched) take(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	watch(l)
	w.lease = l
	return nil
}

func (w *watched) end(ctx context.Context) error { return w.lease.Unlock(ctx) }

type paired struct {
	ctx   context.Context
	lease *fencelock.Lease
}

func pair(ctx context.Context) (*paired, error) {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return nil, err
	}
	return &paired{ctx: l.Context(), lease: l}, nil
}

func (p *paired) end(ctx context.Context) error { return p.lease.Unlock(ctx) }

// Exported has a lease that other packages can look at.
type Exported struct{ Lease *fencelock.Lease }

func export(ctx context.Context) (*Exported, error) {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return nil, err
	}
	e := &Exported{Lease: l}
	return e, nil
}

type asked struct{ held map[string]*fencelock.Lease }

func (a *asked) take(ctx context.Context, name string) (err error) {
	a.held[name], err = locks.Mutex(name).Lock(ctx)
	return err
}

func (a *asked) lost() (n int) {
	for _, l := range a.held {
		if l.Err() != nil {
			n++
		}
	}
	return n
}

type given struct{ lease *fencelock.Lease }

func newGiven(l *fencelock.Lease) *given { return &given{lease: l} }

func (g *given) end(ctx context.Context) error { return g.lease.Unlock(ctx) }

type handle struct {
	ctx   context.Context
	lease *fencelock.Lease
}

// Unlock is what the interface of a host has.
func (h *handle) Unlock() error { return h.lease.Unlock(h.ctx) }

func adapter(ctx context.Context) (interface{ Unlock() error }, error) {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return nil, err
	}
	return &handle{ctx: ctx, lease: l}, nil // the host decides what it does with it
}
