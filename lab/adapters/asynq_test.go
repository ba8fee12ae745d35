// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"context"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/hibiken/asynq"
)

// leadScheduler runs the scheduler of asynq on the replica that leads.
func leadScheduler(ctx context.Context, client *fencelock.Client, newScheduler func() (*asynq.Scheduler, error)) error {
	return client.Election("scheduler").Run(ctx, func(ctx context.Context, _ *fencelock.Lease) error {
		s, err := newScheduler() // for each term, because one that was shut down does not start again
		if err != nil {
			return err
		}
		if err := s.Start(); err != nil {
			return err
		}
		<-ctx.Done() // the end of the term
		s.Shutdown()
		return nil
	})
}

func init() {
	everySecond := func(r *replica) (*asynq.Scheduler, error) {
		s := asynq.NewScheduler(asynq.RedisClientOpt{Addr: r.redis.Options().Addr}, &asynq.SchedulerOpts{
			PostEnqueueFunc: func(*asynq.TaskInfo, error) { r.note("enqueued") },
		})
		_, err := s.Register("@every 1s", asynq.NewTask("report", nil))
		return s, err
	}
	roles["asynq election"] = func(ctx context.Context, r *replica) error {
		return leadScheduler(ctx, r.client, func() (*asynq.Scheduler, error) { return everySecond(r) })
	}
	roles["asynq bare"] = func(ctx context.Context, r *replica) error {
		s, err := everySecond(r)
		if err != nil {
			return err
		}
		if err := s.Start(); err != nil {
			return err
		}
		<-ctx.Done()
		s.Shutdown()
		return nil
	}
}

// TestAsynqElection: of two schedulers one enqueues. Without the election both do.
func TestAsynqElection(t *testing.T) {
	measure := func(role string) (pids map[int]int, runs int, elapsed time.Duration) {
		s := newSite(t)
		began := time.Now()
		for range 2 {
			s.start(role, 0, "")
		}
		all := s.await(8)
		elapsed = time.Since(began)
		pids = map[int]int{}
		for _, r := range all {
			pids[r.pid]++
		}
		return pids, len(all), elapsed
	}
	pids, runs, elapsed := measure("asynq election")
	twice := surplus(runs, elapsed)
	if len(pids) != 1 || twice > 0 {
		t.Errorf("enqueued by process: %v, in %v", pids, elapsed)
	}
	proved(t, "asynq", twice)
	pids, runs, elapsed = measure("asynq bare")
	withoutAdapter(surplus(runs, elapsed))
	t.Logf("without the election, by process: %v, in %v", pids, elapsed)
}
