// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/memstore"
)

// lockFlags is what run and acquire ask for: how to wait, which kind of lock, and what
// others are shown.
type lockFlags struct {
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

func (w *lockFlags) flags(f *pflag.FlagSet) {
	w.given = f
	f.BoolVarP(&w.try, "try", "n", false, "do not wait: fail with exit code 75 and print who holds it")
	f.DurationVarP(&w.wait, "wait", "w", 0, "wait this long at most, for the store and for the lock (default: for the store one TTL, for the lock as long as it takes)")
	f.Int64Var(&w.permits, "permits", 0, "a semaphore: at most this many hold it at once")
	f.BoolVar(&w.shared, "shared", false, "hold it together with others that use --shared")
	f.BoolVar(&w.correct, "correctness", false, "doing the work twice would corrupt data: reject a store that cannot prevent it")
	f.StringVar(&w.reason, "reason", "", "why you hold the lock, shown to others")
	f.StringVar(&w.owner, "owner", "", "who holds the lock, shown to others (default user@host:pid)")
}

func (w *lockFlags) check() error {
	// 0 would be "as long as it takes", which a user who writes 0 does not mean.
	switch {
	case w.given.Changed("wait") && w.wait <= 0:
		return usage("--wait %v: it takes a positive time, such as 30s; --try does not wait", w.wait)
	case w.try && w.wait > 0:
		return usage("--try and --wait contradict each other: --try does not wait")
	case w.given.Changed("permits") && w.permits <= 0:
		return usage("--permits %d: it takes a positive number", w.permits)
	case w.shared && w.permits > 0:
		return usage("--shared and --permits contradict each other: choose one kind of lock")
	}
	if w.owner == "" {
		w.owner = defaultOwner(os.Getpid())
	}
	return nil
}

// client are the options of a client for these flags.
func (w *lockFlags) client() *fencelock.Options {
	opts := &fencelock.Options{Owner: w.owner}
	if w.correct {
		opts.Require = fencelock.Correctness
	}
	// A lock inside a lock: fencelock why must see that the outer one waits for what
	// the inner one waits for.
	if outer := os.Getenv("FENCELOCK_OWNER"); outer != "" {
		opts.Labels = map[string]string{lockview.UnderLabel: outer}
	}
	return opts
}

func (w *lockFlags) options() []fencelock.LockOption {
	var opts []fencelock.LockOption
	if w.reason != "" {
		opts = append(opts, fencelock.Reason(w.reason))
	}
	return opts
}

// rehearse asks a store in memory, which takes whatever any store takes: what it refuses
// is wrong with the names and words that were given, and nothing was done yet.
func validateOffline(opts *fencelock.Options, ask func(context.Context, *fencelock.Client) error) error {
	c, err := fencelock.New(memstore.New(nil), &fencelock.Options{Owner: opts.Owner, Labels: opts.Labels})
	if err != nil {
		return withCode(exitUsage, err)
	}
	ctx := context.Background()
	err = ask(ctx, c)
	if err != nil {
		err = withCode(exitUsage, err)
	}
	_ = c.Close(ctx)
	return err
}

// checkName reports whether a lock can have the name.
func checkName(name string) error {
	return validateOffline(&fencelock.Options{}, func(ctx context.Context, c *fencelock.Client) error {
		_, err := c.Inspect(ctx, name)
		return err
	})
}

// checkLock reports whether there can be such a lock.
func (w *lockFlags) checkLock(name string) error {
	return validateOffline(w.client(), func(ctx context.Context, c *fencelock.Client) error {
		//fencelock:ignore leaseleak validateOffline closes the client
		_, err := w.acquire(ctx, c, name, func() bool { return true })
		return err
	})
}

// connect opens the store: --wait begins here. A store that does not answer is tried
// again until --wait is over, so a job that starts in a failover is not lost. Without
// --wait that ends after one TTL, as the library's own patience does once the store is
// open: a wrong host must not wait forever. --try asks once.
func (w *lockFlags) connect(ctx context.Context, a *app, opts *fencelock.Options) (*connection, error) {
	patience := cmp.Or(opts.TTL, fencelock.DefaultTTL)
	if patience < 100*time.Millisecond {
		patience = a.timeout // no server takes such a TTL; once it is open the error names the least
	}
	if w.wait > 0 {
		patience = w.wait
		w.until = time.Now().Add(w.wait)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for failures := 0; ; failures++ {
		conn, err := a.connect(ctx, opts)
		if w.try || !errors.Is(err, fencelock.ErrUnavailable) {
			return conn, err
		}
		if failures == 0 {
			a.note("%v; trying again for %s", err, text.Short(patience))
		}
		select {
		case <-time.After(retryPause(failures)):
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
				return nil, cause // a signal
			}
			return nil, fmt.Errorf("%w (tried for %s)", err, text.Short(patience))
		}
	}
}

// retryPause is how long to wait before the store is tried again: doubling up to 2 s, and
// half of it random, so that jobs that started together do not come back together.
func retryPause(failures int) time.Duration {
	d := min(100*time.Millisecond<<min(failures, 10), 2*time.Second)
	return d/2 + rand.N(d/2)
}

// acquire gets the lease. notified reports whether the store ever answered that the lock
// is taken: a store that does not answer is not a busy lock.
func (w *lockFlags) acquire(ctx context.Context, c *fencelock.Client, name string, notified func() bool) (*fencelock.Lease, error) {
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
	case errors.Is(err, fencelock.ErrGrace):
		err = fmt.Errorf("%w (--wait %v)", err, w.wait)
	case notified():
		err = fmt.Errorf("%s: %w (--wait %v)%s", name, errWaited, w.wait, holderIn(err))
	default:
		err = fmt.Errorf("%s: %w: it did not answer within --wait %v", name, fencelock.ErrUnavailable, w.wait)
	}
	return l, err
}

// holderIn names the holder that an error of the library names, or is "".
func holderIn(err error) string {
	var e *fencelock.Error
	if !errors.As(err, &e) || e.Holder == nil {
		return ""
	}
	return ": " + holderLine(e.Holder, "")
}

// defaultOwner is user@host:pid, as in the library; run passes it to its command.
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

// flagError is the error of a flag that is unknown or has a wrong value. The texts of the
// library that reads flags quote functions of Go and suggest nothing.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		return usage("unknown flag --%s%s", unknown.GetSpecifiedName(), didYouMean("--"+unknown.GetSpecifiedName(), flagNames(cmd)...))
	case errors.As(err, &value) && takes[value.GetFlag().Value.Type()] != "":
		return usage("--%s %s: it takes %s", value.GetFlag().Name, value.GetValue(), takes[value.GetFlag().Value.Type()])
	}
	return usage("%w", err)
}

// takes has what the values of flags look like, by the type of the flag.
var takes = map[string]string{
	"duration": "a time with its unit, such as 500ms, 30s or 1h30m",
	"int":      "a whole number",
	"int64":    "a whole number",
	"bool":     "true or false",
}

// flagNames are the flags that a user may have meant.
func flagNames(cmd *cobra.Command) (names []string) {
	for _, set := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, "--"+f.Name)
			}
		})
	}
	return names
}

// helpForMisspelledTopics makes fencelock help fail for a topic that does not exist. By
// default it prints the help of the program, and its exit code is 0.
func helpForMisspelledTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil || help == root {
		return
	}
	help.Args = func(_ *cobra.Command, args []string) error {
		if cmd, _, err := root.Find(args); len(args) > 0 && (err != nil || cmd == root) {
			return usage("there is no help on %q%s; fencelock --help lists the commands and topics",
				strings.Join(args, " "), didYouMean(args[0], commandNames(root)...))
		}
		return nil
	}
}

// didYouMean returns ` (did you mean "namespace"?)` with the closest known word, or "".
func didYouMean(word string, known ...string) string {
	if meant := driver.Closest(word, known...); meant != "" {
		return fmt.Sprintf(" (did you mean %q?)", meant)
	}
	return ""
}
