// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"context"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/hibiken/asynq"
)

func init() {
	scheduled := func(ctx context.Context, r *replica) error {
		s := asynq.NewScheduler(asynq.RedisClientOpt{Addr: r.redis.Options().Addr}, &asynq.SchedulerOpts{
			PostEnqueueFunc: func(*asynq.TaskInfo, error) { r.note("enqueued") },
		})
		if _, err := s.Register("@every 1s", asynq.NewTask("report", nil)); err != nil {
			return err
		}
		if err := s.Start(); err != nil {
			return err
		}
		<-ctx.Done()
		s.Shutdown()
		return nil
	}
	// The recipe of docs: the scheduler runs in the term of a leader.
	roles["asynq election"] = func(ctx context.Context, r *replica) error {
		return r.client.Election("scheduler").Run(ctx, func(ctx context.Context, _ *fencelock.Lease) error {
			return scheduled(ctx, r)
		})
	}
	roles["asynq bare"] = scheduled
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
