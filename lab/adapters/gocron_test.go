// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/adapters/gocronlock"
	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"
)

var (
	_ gocron.Locker  = (*gocronlock.Locker[gocron.Lock])(nil)
	_ gocron.Elector = (*gocronlock.Elector)(nil)
)

// gocronPeriod is how often the job is scheduled.
const gocronPeriod = time.Second

func init() {
	roles["gocron locker"] = func(ctx context.Context, r *replica) error {
		locker, err := gocronlock.NewLocker[gocron.Lock](r.client, &gocronlock.Options{Period: gocronPeriod})
		if err != nil {
			return err
		}
		return schedule(ctx, r, gocron.WithDistributedLocker(locker))
	}
	roles["gocron lock of the run"] = func(ctx context.Context, r *replica) error {
		return schedule(ctx, r, gocron.WithDistributedLocker(runLocker{r.redis}))
	}
	roles["gocron elector"] = func(ctx context.Context, r *replica) error {
		elector := gocronlock.NewElector(r.client, "scheduler")
		defer elector.Close(context.Background())
		return schedule(ctx, r, gocron.WithDistributedElector(elector))
	}
}

// runLocker is what locks for gocron do: a key for as long as the job runs.
type runLocker struct{ redis *redis.Client }

func (k runLocker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	if got, err := k.redis.SetNX(ctx, key, "held", time.Minute).Result(); err != nil || !got {
		return nil, errors.Join(err, errors.New("the lock is held"))
	}
	return runLock{k.redis, key}, nil
}

type runLock struct {
	redis *redis.Client
	key   string
}

func (l runLock) Unlock(ctx context.Context) error { return l.redis.Del(ctx, l.key).Err() }

// schedule runs gocron with one job until ctx ends.
func schedule(ctx context.Context, r *replica, option gocron.SchedulerOption) error {
	s, err := gocron.NewScheduler(option)
	if err != nil {
		return err
	}
	if _, err := s.NewJob(gocron.DurationJob(gocronPeriod), gocron.NewTask(func() { r.note("job") }), gocron.WithName("job")); err != nil {
		return err
	}
	s.Start()
	<-ctx.Done()
	return s.Shutdown()
}

// surplus is how many runs there are above one for each nine tenths of a period, which is the
// least distance that the adapter allows, by the server's clock.
func surplus(runs int, elapsed time.Duration) int {
	return max(0, runs-int(elapsed/(gocronPeriod*9/10))-1)
}

// TestGocronLocker: three replicas that started at different moments run each occurrence once.
// With a lock that is held for the run only, each of them runs it.
func TestGocronLocker(t *testing.T) {
	const enough = 12
	measure := func(role string) (runs int, elapsed time.Duration) {
		s := newSite(t)
		began := time.Now()
		for i := range 3 {
			s.start(role, time.Duration(i)*300*time.Millisecond, "")
		}
		all := s.await(enough)
		return len(all), time.Since(began)
	}
	runs, elapsed := measure("gocron locker")
	twice := surplus(runs, elapsed)
	if twice > 0 {
		t.Errorf("%d runs in %v: %d too many", runs, elapsed, twice)
	}
	proved(t, "gocron locker", twice)
	runs, elapsed = measure("gocron lock of the run")
	withoutAdapter(surplus(runs, elapsed))
	t.Logf("with a lock of the run: %d runs in %v, %d too many", runs, elapsed, surplus(runs, elapsed))
}

// TestGocronElector: all runs are on one replica. When it is killed, another one runs the
// job, and then that one alone.
func TestGocronElector(t *testing.T) {
	s := newSite(t)
	replicas := map[int]*exec.Cmd{}
	for range 3 {
		cmd := s.start("gocron elector", 0, "")
		replicas[cmd.Process.Pid] = cmd
	}
	var before int
	for range 2 {
		all := s.await(4)
		leader := all[0].pid
		for _, r := range all {
			if r.pid != leader {
				t.Errorf("%d ran the job, while %d leads", r.pid, leader)
				counted.twoLeaders++
			}
		}
		if leader == before {
			t.Fatalf("%d leads after it was killed", leader)
		}
		before = leader
		s.end(replicas[leader], syscall.SIGKILL)
		delete(replicas, leader)
		s.clear()
	}
	proved(t, "gocron elector", 0)
}
