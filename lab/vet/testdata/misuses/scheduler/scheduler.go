// SPDX-License-Identifier: Apache-2.0

// Package scheduler runs jobs on one of several replicas.
package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fencelock/fencelock"
)

type Job struct {
	Name string
	Run  func(ctx context.Context) error
}

type Scheduler struct {
	locks *fencelock.Client
	jobs  []Job
}

// Tick runs what is due.
func (s *Scheduler) Tick(ctx context.Context, at time.Time) error {
	var all error
	for _, job := range s.jobs {
		once := s.locks.Once(job.Name, 24*time.Hour)
		_, err := once.Do(ctx, at.Format(time.RFC3339), func(context.Context, *fencelock.Lease) error {
			return job.Run(ctx) // misuse: outerctx
		})
		all = errors.Join(all, err)
	}
	return all
}

// Lead runs all jobs as long as this replica leads.
func (s *Scheduler) Lead(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	return s.locks.Election("scheduler").Run(ctx, func(_ context.Context, term *fencelock.Lease) error {
		for {
			select {
			case <-ctx.Done(): // misuse: outerctx
				return ctx.Err() // misuse: outerctx
			case at := <-tick.C:
				slog.Info("tick", "at", at)
				for _, j := range s.jobs {
					_ = j.Run(ctx) // misuse: outerctx
				}
			}
		}
	})
}

// RunNow skips a job that runs elsewhere.
func (s *Scheduler) RunNow(ctx context.Context, job Job) error {
	lease, err := s.locks.Mutex("jobs/" + job.Name).TryLock(ctx)
	if errors.Is(err, fencelock.ErrBusy) {
		return nil
	} else if err != nil {
		return err
	}
	defer lease.Unlock(ctx) // misuse: unlockerr
	return job.Run(ctx)
}

// IsRunning asks by locking.
func (s *Scheduler) IsRunning(ctx context.Context, job Job) bool {
	_, err := s.locks.Mutex("jobs/" + job.Name).TryLock(ctx) // misuse: leaseleak
	return errors.Is(err, fencelock.ErrBusy)
}

// LeadWell is right.
func (s *Scheduler) LeadWell(ctx context.Context) error {
	err := s.locks.Election("scheduler").Run(ctx, func(term context.Context, l *fencelock.Lease) error {
		for _, j := range s.jobs {
			if err := j.Run(term); err != nil {
				slog.ErrorContext(ctx, "job failed", "job", j.Name, "token", l.Token())
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		return fencelock.ErrResigned
	})
	return err
}
