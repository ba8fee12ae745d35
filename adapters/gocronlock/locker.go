// SPDX-License-Identifier: Apache-2.0

package gocronlock

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/internal/held"
)

// Options are the settings of a Locker.
type Options struct {
	// Period is how often jobs run that Periods does not name: the shortest distance of two
	// runs, because a run that comes earlier is skipped. Without it, a job that Periods does
	// not name is refused.
	Period time.Duration
	// Periods are those of jobs by name. gocron names a job after its function, unless
	// WithName says otherwise; jobs of one name share one lock, so give each a name.
	Periods map[string]time.Duration
	// Prefix is what names of locks begin with; "gocron/" if it is empty.
	Prefix string
	// OnLost is called if the lock of a running job is lost; err wraps fencelock.ErrLost.
	// Without it, a loss is logged.
	OnLost func(job string, err error)
}

// Locker is a gocron.Locker. L is gocron.Lock.
type Locker[L any] struct {
	client  *fencelock.Client
	period  time.Duration
	periods map[string]time.Duration
	leases  *held.Leases
}

// NewLocker returns a Locker. It fails if there is no period, if the store cannot keep a
// lock taken for one, and if L is not gocron.Lock.
func NewLocker[L any](c *fencelock.Client, opts *Options) (*Locker[L], error) {
	if opts == nil {
		opts = &Options{}
	}
	if opts.Period < 0 || opts.Period == 0 && len(opts.Periods) == 0 {
		return nil, fmt.Errorf("gocronlock: Options.Period is %v; set it to the period of the jobs, or name each job in Periods", opts.Period)
	}
	for job, period := range opts.Periods {
		if period <= 0 {
			return nil, fmt.Errorf("gocronlock: Options.Periods has %v for %q; a period is positive", period, job)
		}
	}
	if !c.Guarantees().Hold {
		return nil, fmt.Errorf("gocronlock: the %s store cannot keep a lock taken after a run, so every replica would run the job: use Redis, etcd or a database, or an Elector",
			c.Guarantees().Server)
	}
	if _, ok := any(&lock{}).(L); !ok {
		return nil, fmt.Errorf("gocronlock: NewLocker[%v] is not of gocron.Lock; write NewLocker[gocron.Lock]", reflect.TypeFor[L]())
	}
	prefix := opts.Prefix
	if prefix == "" {
		prefix = "gocron/"
	}
	return &Locker[L]{client: c, period: opts.Period, periods: maps.Clone(opts.Periods), leases: held.New(prefix, opts.OnLost)}, nil
}

// Lock acquires the lock of a job for one occurrence, or fails at once; gocron then skips
// the run.
func (k *Locker[L]) Lock(ctx context.Context, job string) (L, error) {
	var none L
	period, ok := k.periods[job]
	if !ok {
		period = k.period
	}
	if period == 0 {
		return none, fmt.Errorf("gocronlock: the period of job %q is not known: add it to Options.Periods, or set Options.Period", job)
	}
	l, err := k.client.Mutex(k.leases.Lock(job), fencelock.MinHold(occupied(period)), fencelock.Reason("gocron job")).TryLock(ctx)
	if err != nil {
		return none, err
	}
	k.leases.Watch(job, l)
	return any(&lock{l}).(L), nil
}

// occupied is how long a lock stays taken for one occurrence. A tenth of the period is left
// for the replica that ran it: its timer must not find its own lock of the last occurrence.
func occupied(period time.Duration) time.Duration { return period - period/10 }

// lock is a gocron.Lock.
type lock struct{ lease *fencelock.Lease }

// Unlock gives the lease back. gocron calls it with a context that may have ended, which
// Lease.Unlock allows, and drops its error; a loss was reported by OnLost.
func (l *lock) Unlock(ctx context.Context) error { return l.lease.Unlock(ctx) }
