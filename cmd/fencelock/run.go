// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/jobtimes"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/supervisor"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
	"github.com/spf13/cobra"
)

// runner is one "fencelock run".
type runner struct {
	*app
	lockFlags
	times         jobtimes.Times
	oncePer       time.Duration
	retryFailed   bool
	failIfSkipped bool
	conflictCode  int
	dropStore     bool
	statusFD      int
	statusFile    string

	name    string
	argv    []string
	signals chan os.Signal
	began   time.Time
	status  status
}

// defaultDrift is that of fencelock.Options, which no flag changes.
const defaultDrift = 0.01

func (a *app) runCommand() *cobra.Command {
	r := &runner{app: a, times: jobtimes.Times{Drift: defaultDrift}}
	cmd := &cobra.Command{
		Use:   "run LOCK [flags] -- COMMAND [ARG...]",
		Short: "Run a command while holding a lock",
		Long: `Run a command while holding a lock, and end it before another process can hold the lock.

It waits for the lock and prints on stderr who holds it. Then it runs the command and
renews the lock for as long as the command runs. When the command has ended, what
it left behind in its process group is ended too, the lock is released, and
fencelock ends with the command's exit code.

If the lock cannot be renewed, because the store does not answer, the command gets
TERM and, after --stop-time, KILL: both before the store can give the lock to
another. If the lock is gone already, because an operator broke it or the store
lost its data, it gets KILL at once. Then the exit code is 76.

Signals are passed on to the whole process group. If fencelock itself is killed, the
command is killed too. On Linux that reaches everything the command started, but for
processes of another user: write sudo fencelock run ..., not run ... -- sudo.

The command finds in its environment:

  FENCELOCK_NAME    the lock
  FENCELOCK_TOKEN   the fencing token: send it with every write, and reject
                    smaller ones there. Only that helps against a machine that
                    is suspended at the wrong moment and writes late. It is not
                    set if the store has none.
  FENCELOCK_OWNER   who holds it, as others see it

With --once-per the lock of a period is LOCK@START, where START is its beginning in
UTC: fencelock ls LOCK@ shows it. It does not exclude a run of LOCK without --once-per.

The exit code is that of the command, or
  64  the command line or the configuration is wrong    69  the store did not answer
  75  not acquired: another client has the lock         76  the lock was lost
fencelock help exit-codes has the others.`,
		Example: `  fencelock run reindex -- ./reindex.sh                 # the next one waits
  fencelock run deploy --try --reason "release 4.2" -- make deploy
  fencelock run migrate --wait 5m -- ./migrate up
  fencelock run billing --once-per 24h -- ./bill        # on every replica, from cron
  fencelock run export --permits 5 -- ./export.sh       # at most five at once`,
		ValidArgsFunction: a.completeLocks,
		RunE:              func(cmd *cobra.Command, args []string) error { return r.main(cmd, args) },
	}
	f := cmd.Flags()
	r.lockFlags.flags(f)
	f.DurationVar(&r.times.TTL, "ttl", fencelock.DefaultTTL, "how long the lock outlives a machine that dies")
	f.DurationVar(&r.times.Stop, "stop-time", 0, "time between TERM and KILL (default a fifth of --ttl)")
	f.DurationVar(&r.times.Margin, "margin", 0, "time between KILL and the moment another can hold it (default a tenth of --ttl)")
	f.DurationVar(&r.oncePer, "once-per", 0, "run once in each such period, by the first process that comes; skip otherwise")
	f.BoolVar(&r.retryFailed, "retry-failed", false, "with --once-per: a run that failed does not count")
	f.BoolVar(&r.failIfSkipped, "fail-if-skipped", false, "with --once-per: exit code 75 instead of 0 if it has run already")
	f.IntVarP(&r.conflictCode, "conflict-exit-code", "E", exitNotAcquired, "exit code if the lock was not acquired")
	f.BoolVar(&r.dropStore, "drop-store", false, "do not pass FENCELOCK_STORE on to the command: it may have a password in it")
	f.IntVar(&r.statusFD, "status-fd", 0, "write what happened to this descriptor, as one line of JSON")
	f.StringVar(&r.statusFile, "status-file", "", "or to this file, which is replaced at the end and removed before")
	return cmd
}

// main is the command after its flags were read.
func (r *runner) main(cmd *cobra.Command, args []string) error {
	if err := r.parse(cmd, args); err != nil {
		return err
	}
	report, err := r.openStatus()
	if err != nil {
		return err
	}
	// Caught and not read: Go ends a program that writes to stderr after its reader has
	// ended. Ignoring the signal would make the command ignore it, too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	notes := newNoteQueue(r.app.err)
	r.app.err = notes
	defer notes.flush()
	r.began = time.Now()
	r.status = status{Lock: r.name}
	err = r.withExitCode(r.hold())
	return errors.Join(err, report(r.status))
}

// withExitCode gives an error the exit code that run has for it.
func (r *runner) withExitCode(err error) error {
	switch {
	case errors.Is(err, errSkipped) && r.failIfSkipped:
		err = exitSilently(r.conflictCode)
	case errors.Is(err, errSkipped):
		err = nil
	case r.status.Outcome == outcomeBusy || r.status.Outcome == outcomeTimeout:
		err = withCode(r.conflictCode, err)
	case exitCode(err) == exitFailed && !isSilent(err):
		err = withCode(exitInternal, err) // 1 is the command's own
	}
	r.status.ExitCode = exitCode(err)
	return err
}

func (r *runner) parse(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash < 0:
		return usage("write the command after --, as in: fencelock run LOCK -- COMMAND")
	case dash != 1:
		return usage("write one lock before --, as in: fencelock run LOCK -- COMMAND; %d were given", dash)
	case len(args) < 2:
		return usage("no command after --; write fencelock run LOCK -- COMMAND")
	case cmd.Flags().Changed("once-per") && r.oncePer <= 0:
		return usage("--once-per %v: it takes a positive time, such as 24h", r.oncePer)
	case r.oncePer > 0 && (r.permits > 0 || r.shared):
		return usage("--once-per does not go with --permits or --shared")
	case (r.retryFailed || r.failIfSkipped) && r.oncePer == 0:
		return usage("--retry-failed and --fail-if-skipped need --once-per")
	}
	r.name, r.argv = args[0], args[1:]
	var err error
	r.times, err = r.times.WithDefaults()
	if err != nil {
		return usage("%w", err)
	}
	err = r.lockFlags.check()
	if err == nil {
		err = r.checkLock()
	}
	return err
}

// checkLock reports whether there can be such a lock, or such occurrences.
func (r *runner) checkLock() error {
	if r.oncePer == 0 {
		return r.lockFlags.checkLock(r.name)
	}
	return validateOffline(r.lockFlags.client(), func(ctx context.Context, c *fencelock.Client) error {
		_, err := r.occurrences(c).Do(ctx, jobtimes.PeriodName(jobtimes.PeriodStart(time.Now(), r.oncePer)), func(context.Context, *fencelock.Lease) error { return nil })
		return err
	})
}

// hold waits for the lock, runs the command, and gives the lock back.
func (r *runner) hold() error {
	r.signals = make(chan os.Signal, 16)
	for _, sig := range append(supervisor.Forwarded, syscall.SIGCONT) {
		if !signal.Ignored(sig) { // nohup stays nohup
			signal.Notify(r.signals, sig)
		}
	}
	defer signal.Stop(r.signals)
	ctx, acquired := r.waiting()
	defer acquired()
	notes := newWaitNotes(r.app, r.name)
	opts := r.lockFlags.client()
	opts.TTL, opts.Margin, opts.Drift = r.times.TTL, r.times.Margin, r.times.Drift
	opts.Hooks.Event = notes.event
	conn, err := r.lockFlags.connect(ctx, r.app, opts)
	if err != nil {
		return r.refused(err)
	}
	// The lock itself is given back before this; a store that is away must not
	// hold up the exit code.
	defer r.closeWithin(conn, min(r.timeout, time.Second))
	defer notes.follow(conn.client)()
	if r.oncePer > 0 {
		return r.once(ctx, conn.client, acquired)
	}
	l, err := r.lockFlags.acquire(ctx, conn.client, r.name, notes.seen.Load)
	notes.done()
	if sig := acquired(); sig != 0 && err == nil {
		// It came together with the lock: its sender wants nothing to begin.
		err = errors.Join(interrupted(sig), l.Unlock(context.Background()))
	}
	if err != nil {
		return r.refused(err)
	}
	r.granted(l)
	err = r.supervise(l)
	return r.released(err, l.Unlock(context.Background()))
}

// waiting is a context that ends when a signal asks to, until acquired is called:
// then signals are the command's. acquired returns the signal that asked, or 0.
func (r *runner) waiting() (ctx context.Context, acquired func() syscall.Signal) {
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := make(chan struct{})
	asked := make(chan syscall.Signal, 1)
	go func() {
		var first syscall.Signal
		defer func() { asked <- first }()
		for {
			select {
			case sig := <-r.signals:
				switch s := sig.(syscall.Signal); s {
				case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
					cancel(interrupted(s))
					first = s
				}
			case <-stop:
				return
			}
		}
	}()
	return ctx, sync.OnceValue(func() syscall.Signal {
		close(stop)
		return <-asked
	})
}

// refused notes why there is no lock.
func (r *runner) refused(err error) error {
	var e *exitError
	var busy *fencelock.BusyError
	switch {
	case errors.As(err, &e) && e.sig != 0:
		r.status.Outcome = outcomeInterrupted
		return e
	case errors.Is(err, fencelock.ErrBusy):
		r.status.Outcome = outcomeBusy
		if errors.As(err, &busy) && len(busy.Holders) > 0 {
			r.status.Holder = lockview.HolderOf(&busy.Holders[0])
		}
	case errors.Is(err, fencelock.ErrGrace):
		r.status.Outcome = outcomeGrace
	case errors.Is(err, errWaited):
		r.status.Outcome = outcomeTimeout
	case exitCode(err) == exitUnavailable:
		r.status.Outcome = outcomeUnavailable
	default:
		r.status.Outcome = outcomeError
	}
	r.status.WaitedMS = time.Since(r.began).Milliseconds()
	r.status.Reason = text.Plain(err.Error())
	return err
}

// granted notes the lease.
func (r *runner) granted(l *fencelock.Lease) {
	r.status.WaitedMS = time.Since(r.began).Milliseconds()
	r.status.Token = l.Token()
	r.status.Owner = r.lockFlags.owner
	r.began = time.Now()
}

// released is how it ended, given how the command ended and what came of giving the
// lock back. A loss wins over the command's own exit code, whatever that says: another
// may have worked at the same time. That the store did not confirm is no fault of the
// command, which is dead by now.
func (r *runner) released(ran, err error) error {
	r.status.HeldMS = time.Since(r.began).Milliseconds()
	switch {
	case err == nil || errors.Is(ran, fencelock.ErrLost):
	case errors.Is(err, fencelock.LossForceUnlock), errors.Is(err, fencelock.LossStoreReset), errors.Is(err, fencelock.LossSessionEnded):
		r.status.Outcome, r.status.Reason = outcomeLost, text.Plain(err.Error())
		return fmt.Errorf("the lock was gone before the command had ended: %w", err)
	case errors.Is(err, fencelock.ErrLost): // its time ran out after the command had ended
	default:
		r.note("%v", err)
	}
	return ran
}

// errSkipped: the occurrence has run or is running.
var errSkipped = errors.New("skipped")

// once runs the command unless the present stretch of time has had its run.
func (r *runner) once(ctx context.Context, c *fencelock.Client, acquired func() syscall.Signal) error {
	period := jobtimes.PeriodName(jobtimes.PeriodStart(time.Now(), r.oncePer))
	ctx, granted := r.withinWait(ctx)
	var ran error
	res, err := r.occurrences(c).Do(ctx, period, func(_ context.Context, l *fencelock.Lease) error {
		granted()
		if sig := acquired(); sig != 0 {
			r.signals <- sig // the occurrence has begun: it is the command's
		}
		r.granted(l)
		ran = r.supervise(l)
		return ran
	})
	r.status.Occurrence = period
	switch {
	case res.Ran:
		return r.released(ran, without(err, ran))
	case err != nil:
		return r.refused(err)
	}
	r.status.Outcome, r.status.Holder = outcomeSkipped, lockview.HolderOf(res.Holder)
	what := "running elsewhere"
	if res.Done {
		what = "already ran"
	}
	if res.Holder != nil {
		what += ", started by " + res.Holder.Record.Owner
	}
	r.note("%s at %s: %s; skipped", r.name, period, what)
	return errSkipped
}

// withinWait bounds the time until an occurrence may begin, which is that of a grace period. granted ends the bound.
func (r *runner) withinWait(parent context.Context) (ctx context.Context, granted func()) {
	bound := time.Until(r.until)
	switch {
	case r.try:
		bound = r.timeout // of one answer
	case r.wait <= 0:
		return parent, func() {}
	}
	ctx, cancel := context.WithCancelCause(parent)
	timer := time.AfterFunc(bound, func() { cancel(errWaited) })
	return ctx, func() { timer.Stop() }
}

// occurrences are the runs of which one is wanted in each stretch of time.
func (r *runner) occurrences(c *fencelock.Client) *fencelock.Once {
	keep := jobtimes.KeepFactor * r.oncePer
	opts := r.lockFlags.options()
	if !r.retryFailed {
		opts = append(opts, fencelock.MinHold(keep))
	}
	return c.Once(r.name, keep, opts...)
}

// without returns err without the error other, which err may be or may join.
func without(err, other error) error {
	if err == other {
		return nil
	}
	var rest []error
	if joined, ok := err.(interface{ Unwrap() []error }); ok && other != nil {
		for _, e := range joined.Unwrap() {
			if e != other {
				rest = append(rest, e)
			}
		}
		return errors.Join(rest...)
	}
	return err
}
