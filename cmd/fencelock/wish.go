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
}

func (w *wish) flags(f *pflag.FlagSet) {
	f.BoolVarP(&w.try, "try", "n", false, "do not wait: fail with exit code 75 and say who holds it")
	f.DurationVarP(&w.wait, "wait", "w", 0, "wait this long at most (default: as long as it takes)")
	f.Int64Var(&w.permits, "permits", 0, "a semaphore: so many may hold it together")
	f.BoolVar(&w.shared, "shared", false, "hold it together with others that say --shared")
	f.BoolVar(&w.correct, "correctness", false, "doing the work twice would corrupt something: refuse a store that cannot do its part")
	f.StringVar(&w.reason, "reason", "", "what others are told when they ask why")
	f.StringVar(&w.owner, "owner", "", "what others are told when they ask who (default user@host:pid)")
}

func (w *wish) check() error {
	if w.try && w.wait > 0 || w.wait < 0 {
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

// acquire gets the lease.
func (w *wish) acquire(ctx context.Context, c *fencelock.Client, name string) (*fencelock.Lease, error) {
	if w.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, w.wait, errWaited)
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
	if err != nil && errors.Is(context.Cause(ctx), errWaited) {
		err = fmt.Errorf("%s: %w (--wait %v)", name, errWaited, w.wait)
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
