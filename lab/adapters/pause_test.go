// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/gocronlock"
	"github.com/fencelock/fencelock/adapters/migratelock"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/go-co-op/gocron/v2"
	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

// pauseMigrations are long enough to be paused in the first.
var pauseMigrations = fstest.MapFS{
	"1_a.up.sql": {Data: []byte("CREATE TABLE a (id int); DO SLEEP(4);")},
	"2_b.up.sql": {Data: []byte("CREATE TABLE b (id int);")},
}

func init() {
	// A job that runs until its process ends, and a note of each loss.
	roles["gocron long"] = func(ctx context.Context, r *replica) error {
		locker, err := gocronlock.NewLocker[gocron.Lock](r.client, &gocronlock.Options{
			Period: gocronPeriod, OnLost: func(job string, err error) { r.note("lost %s %v", job, errors.Is(err, fencelock.ErrLost)) },
		})
		if err != nil {
			return err
		}
		s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
		if err != nil {
			return err
		}
		long := func(ctx context.Context) { r.note("begin"); <-ctx.Done() }
		if _, err := s.NewJob(gocron.DurationJob(gocronPeriod), gocron.NewTask(long), gocron.WithName("job"), gocron.WithSingletonMode(gocron.LimitModeReschedule)); err != nil {
			return err
		}
		s.Start()
		<-ctx.Done()
		return s.Shutdown()
	}
	roles["migrate long"] = func(ctx context.Context, r *replica) error {
		inner, err := mariadbDriver(r.extra)
		if err != nil {
			return err
		}
		source, err := iofs.New(pauseMigrations, ".")
		if err != nil {
			return err
		}
		m, err := migrate.NewWithInstance("iofs", source, "mysql", inner)
		if err != nil {
			return err
		}
		err = migratelock.Run(ctx, r.client, "migrate/orders", m.GracefulStop, m.Up)
		var dirty migrate.ErrDirty
		r.note("lost %v, dirty %v", errors.Is(err, fencelock.ErrLost), errors.As(err, &dirty))
		return nil
	}
}

// pause stops a process as a long garbage collection or a debugger does.
func (s *site) pause(cmd *exec.Cmd) (resume func()) {
	s.t.Helper()
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			s.t.Fatal(err)
		}
	}
}

// line waits for a line of a process, after so many others, and returns where it is.
func (s *site) line(what string, from func(pid int) bool, after int) (pid, at int) {
	s.t.Helper()
	if err := servers.Await(what, func() bool {
		all := s.runs()
		for i := after; i < len(all) && at == 0; i++ {
			if all[i].what == what && from(all[i].pid) {
				pid, at = all[i].pid, i+1
			}
		}
		return at != 0
	}); err != nil {
		s.t.Fatalf("%v; there are %v", err, s.runs())
	}
	return pid, at
}

func anyone(int) bool { return true }

func but(pid int) func(int) bool { return func(other int) bool { return other != pid } }

func only(pid int) func(int) bool { return func(other int) bool { return other == pid } }

// TestGocronPauseAndBreak: the job of a paused replica begins on the other one, and the
// paused one is notified when it goes on. So is one whose lock an operator broke.
func TestGocronPauseAndBreak(t *testing.T) {
	s := newSite(t)
	replicas := map[int]*exec.Cmd{}
	for range 2 {
		cmd := s.start("gocron long", 0, "")
		replicas[cmd.Process.Pid] = cmd
	}
	first, at := s.line("begin", anyone, 0)
	resume := s.pause(replicas[first])
	second, at := s.line("begin", but(first), at)
	resume()
	_, at = s.line("lost job true", only(first), at)
	client := locksOn(t, s)(t)
	st, err := client.Inspect(t.Context(), "gocron/job")
	if err != nil || len(st.Holders) != 1 {
		t.Fatalf("%v, %v", st, err)
	}
	if _, err := client.ForceUnlock(t.Context(), "gocron/job", st.Holders[0].Token); err != nil {
		t.Fatal(err)
	}
	s.line("lost job true", only(second), at)
	proved(t, "gocron locker", 0)
}

// TestGocronElectorPause: a paused leader runs nothing when it goes on.
func TestGocronElectorPause(t *testing.T) {
	s := newSite(t)
	replicas := map[int]*exec.Cmd{}
	for range 2 {
		cmd := s.start("gocron elector", 0, "")
		replicas[cmd.Process.Pid] = cmd
	}
	first, at := s.line("job", anyone, 0)
	resume := s.pause(replicas[first])
	second, at := s.line("job", but(first), at)
	resume()
	for range 3 {
		_, at = s.line("job", only(second), at)
	}
	both := s.runs()
	begun := slices.Index(both, ran{second, "job"})
	for _, r := range both[begun:] {
		if r.pid == first {
			t.Errorf("%d ran the job, while %d leads: %v", first, second, both)
			counted.twoLeaders++
		}
	}
	proved(t, "gocron elector", 0)
}

// TestCertmagicPause: a replica is paused in the middle of an order. Another one orders after
// the TTL, and when the first goes on, it has a certificate, too.
func TestCertmagicPause(t *testing.T) {
	a, s := startAuthority(t), newSite(t)
	a.hold = make(chan struct{})
	dir := a.folder(t)
	first := s.start("certmagic", 0, a.extra(dir))
	orders := func(n int32) {
		t.Helper()
		if err := servers.Await(fmt.Sprintf("order %d", n), func() bool { return a.orders.Load() == n }); err != nil {
			t.Fatal(err)
		}
	}
	orders(1)
	resume := s.pause(first)
	second := s.start("certmagic", 0, a.extra(dir))
	orders(2)
	close(a.hold)
	s.line("<nil>", only(second.Process.Pid), 0)
	resume()
	s.line("<nil>", only(first.Process.Pid), 0)
	proved(t, "certmagic", 0)
}

// TestMigratePause: a process is paused in the middle of a migration. The next one finds the
// version dirty, and the first stops before its second migration when it goes on.
func TestMigratePause(t *testing.T) {
	maria := servers.Test(t, func() (*servers.Server, error) { return servers.MariaDB() })
	db, err := sql.Open("mysql", mariadbURL(maria))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s := newSite(t)
	first := s.start("migrate long", 0, mariadbURL(maria))
	if err := servers.Await("the first migration", func() bool {
		var version int
		var dirty bool
		return db.QueryRowContext(t.Context(), "SELECT version, dirty FROM schema_migrations").Scan(&version, &dirty) == nil && version == 1 && dirty
	}); err != nil {
		t.Fatal(err)
	}
	resume := s.pause(first)
	second := s.start("migrate long", 0, mariadbURL(maria))
	s.line("lost false, dirty true", only(second.Process.Pid), 0)
	resume()
	s.line("lost true, dirty false", only(first.Process.Pid), 0)
	var tables []string
	rows, err := db.QueryContext(t.Context(), "SHOW TABLES")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, name)
	}
	if got := strings.Join(tables, " "); rows.Err() != nil || !strings.Contains(got, "a") || slices.Contains(tables, "b") {
		t.Errorf("tables %v, %v; want a, and not b", tables, rows.Err())
	}
	proved(t, "migrate", 0)
}
