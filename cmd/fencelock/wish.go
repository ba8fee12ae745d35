// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/memstore"
	"github.com/spf13/pflag"
)

// wish is what run and acquire ask for: how to wait, which kind of lock, and what
// others are told.
type wish struct {
	try     bool
	wait    time.Duration
	permits int64
	shared  bool
	reason  string
	owner   string
	correct bool

	until time.Time // when --wait is over; zero if it never is
	given *pflag.FlagSet
}

func (w *wish) flags(f *pflag.FlagSet) {
	w.given = f
	f.BoolVarP(&w.try, "try", "n", false, "do not wait: fail with exit code 75 and say who holds it")
	f.DurationVarP(&w.wait, "wait", "w", 0, "wait this long at most (default: as long as it takes)")
	f.Int64Var(&w.permits, "permits", 0, "a semaphore: so many may hold it together")
	f.BoolVar(&w.shared, "shared", false, "hold it together with others that say --shared")
	f.BoolVar(&w.correct, "correctness", false, "doing the work twice would corrupt something: refuse a store that cannot do its part")
	f.StringVar(&w.reason, "reason", "", "what others are told when they ask why")
	f.StringVar(&w.owner, "owner", "", "what others are told when they ask who (default user@host:pid)")
}

func (w *wish) check() error {
	// 0 would be "as long as it takes", which nobody means who writes it.
	if w.try && w.wait > 0 || w.given.Changed("wait") && w.wait <= 0 {
		return usage("--try does not wait; --wait takes a positive time")
	}
	if w.shared && w.permits > 0 || w.permits < 0 {
		return usage("--permits takes a positive number and does not go with --shared")
	}
	if w.owner == "" {
		w.owner = defaultOwner(os.Getpid())
	}
	return nil
}

// client are the options of a client for this wish.
func (w *wish) client() *fencelock.Options {
	opts := &fencelock.Options{Owner: w.owner}
	if w.correct {
		opts.Require = fencelock.Correctness
	}
	// A lock inside a lock: whoever asks who blocks whom must see that the outer
	// one waits for what the inner one waits for.
	if outer := os.Getenv("FENCELOCK_OWNER"); outer != "" {
		opts.Labels = map[string]string{underLabel: outer}
	}
	return opts
}

// underLabel names the holder under whose lock a process runs.
const underLabel = "under"

func (w *wish) options() []fencelock.Option {
	var opts []fencelock.Option
	if w.reason != "" {
		opts = append(opts, fencelock.Reason(w.reason))
	}
	return opts
}

// rehearse asks a store in memory, which takes whatever any store takes: what it refuses
// is wrong with the names and words that were given, and nothing was done yet.
func rehearse(opts *fencelock.Options, ask func(context.Context, *fencelock.Client) error) error {
	c, err := fencelock.New(memstore.New(nil), &fencelock.Options{Owner: opts.Owner, Labels: opts.Labels})
	if err != nil {
		return &failure{exitUsage, err}
	}
	ctx := context.Background()
	if err = ask(ctx, c); err != nil {
		err = &failure{exitUsage, err}
	}
	_ = c.Close(ctx)
	return err
}

// checkName says whether a lock can have the name.
func checkName(name string) error {
	return rehearse(&fencelock.Options{}, func(ctx context.Context, c *fencelock.Client) error {
		_, err := c.Inspect(ctx, name)
		return err
	})
}

// checkLock says whether there can be such a lock.
func (w *wish) checkLock(name string) error {
	return rehearse(w.client(), func(ctx context.Context, c *fencelock.Client) error {
		_, err := w.acquire(ctx, c, name, func() bool { return true })
		return err
	})
}

// connect opens the store for the wish: --wait begins here.
func (w *wish) connect(ctx context.Context, a *app, opts *fencelock.Options) (*connection, error) {
	if w.wait > 0 {
		w.until = time.Now().Add(w.wait)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, w.until)
		defer cancel()
	}
	return a.connect(ctx, opts)
}

// acquire gets the lease. told says whether the store ever said that the lock is
// taken: a store that does not answer is no lock that is busy.
func (w *wish) acquire(ctx context.Context, c *fencelock.Client, name string, told func() bool) (*fencelock.Lease, error) {
	if !w.until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, w.until, errWaited)
		defer cancel()
	}
	get := c.Mutex(name, w.options()...).Lock
	switch {
	case w.permits > 0 && w.try:
		get = func(ctx context.Context) (*fencelock.Lease, error) {
			return c.Semaphore(name, w.permits, w.options()...).TryAcquire(ctx, 1)
		}
	case w.permits > 0:
		get = func(ctx context.Context) (*fencelock.Lease, error) {
			return c.Semaphore(name, w.permits, w.options()...).Acquire(ctx, 1)
		}
	case w.shared && w.try:
		get = c.RWMutex(name, w.options()...).TryRLock
	case w.shared:
		get = c.RWMutex(name, w.options()...).RLock
	case w.try:
		get = c.Mutex(name, w.options()...).TryLock
	}
	l, err := get(ctx)
	switch {
	case err == nil || !errors.Is(context.Cause(ctx), errWaited):
	case told():
		err = fmt.Errorf("%s: %w (--wait %v)", name, errWaited, w.wait)
	default:
		err = fmt.Errorf("%s: %w: it did not answer within --wait %v", name, fencelock.ErrUnavailable, w.wait)
	}
	return l, err
}

// defaultOwner is user@host:pid, as in the library; run tells it to its command.
func defaultOwner(pid int) string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil && h != "" {
		host = h
	}
	return fmt.Sprintf("%s@%s:%d", name, host, pid)
}
