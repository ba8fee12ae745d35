// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/cronlock"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/robfig/cron/v3"
)

type reportArgs struct{}

func (reportArgs) Kind() string { return "report" }

// reportWorker works on periodic jobs of several River databases, such as one for each
// region. Each of them inserts a job for an occurrence, and one of these jobs runs it.
type reportWorker struct {
	river.WorkerDefaults[reportArgs]
	once     *fencelock.Once
	schedule cron.Schedule
	report   func(ctx context.Context, occurrence string) error
}

func (w *reportWorker) Work(ctx context.Context, job *river.Job[reportArgs]) error {
	occurrence, err := cronlock.Occurrence(w.schedule, job.ScheduledAt)
	if err != nil {
		return river.JobCancel(err)
	}
	result, err := w.once.Do(ctx, occurrence, func(ctx context.Context, _ *fencelock.Lease) error {
		return w.report(ctx, occurrence)
	})
	if err == nil && !result.Done {
		return river.JobSnooze(time.Minute) // it may fail there
	}
	return err
}

// region starts River on a separate database, with a periodic job for each second, and returns
// the database.
func region(t *testing.T, pg *servers.Server, name string, worker *reportWorker) *pgxpool.Pool {
	t.Helper()
	admin, err := pgxpool.New(t.Context(), postgresURL(pg))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), strings.Replace(postgresURL(pg), "/postgres?", "/"+name+"?", 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, worker)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}}, Workers: workers, Logger: slog.New(slog.DiscardHandler),
		PeriodicJobs: []*river.PeriodicJob{river.NewPeriodicJob(worker.schedule, func() (river.JobArgs, *river.InsertOpts) { return reportArgs{}, nil }, nil)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.StopAndCancel(context.Background()) })
	return pool
}

// TestRiverPeriodicJobs: two databases insert a job for each second, and one of the two runs.
func TestRiverPeriodicJobs(t *testing.T) {
	schedule, err := everySecond.Parse("* * * * * *")
	if err != nil {
		t.Fatal(err)
	}
	pg := servers.Test(t, func() (*servers.Server, error) { return servers.Postgres() })
	var mu sync.Mutex
	runs := map[string]int{}
	var regions []*pgxpool.Pool
	clients := locksOn(t, newSite(t))
	for _, name := range []string{"east", "west"} {
		regions = append(regions, region(t, pg, name, &reportWorker{
			once: clients(t).Once("report", time.Hour), schedule: schedule,
			report: func(_ context.Context, occurrence string) error {
				mu.Lock()
				defer mu.Unlock()
				runs[occurrence]++
				return nil
			},
		}))
	}
	for _, pool := range regions {
		if err := servers.Await("jobs of both regions", func() bool {
			var jobs int
			err := pool.QueryRow(t.Context(), "SELECT count(*) FROM river_job WHERE attempted_at IS NOT NULL").Scan(&jobs)
			return err == nil && jobs >= 4
		}); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	twice := 0
	for occurrence, n := range runs {
		if n > 1 {
			twice++
			t.Errorf("%s ran %d times", occurrence, n)
		}
	}
	proved(t, "river", twice)
}
