// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// bin is where programs puts what it compiles.
var bin string

// programs are the programs of this folder, compiled when the first test needs one.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "fencelock-examples")
	if err != nil {
		return "", err
	}
	bin = dir
	out, err := exec.Command("go", "build", "-o", dir, "./orders", "./cron", "./leader", "./limit", "./migrate").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return dir, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if bin != "" {
		_ = os.RemoveAll(bin)
	}
	os.Exit(code)
}

// A fleet starts programs on one Redis server.
type fleet struct {
	*testing.T
	env []string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	redis := servers.Test(t, func() (*servers.RedisServer, error) { return servers.Redis.Start() })
	return &fleet{t, append(os.Environ(), "FENCELOCK_STORE=redis://"+redis.Addr)}
}

// command is a program that does not outlive the test.
func (f *fleet) command(name string, args ...string) *exec.Cmd {
	f.Helper()
	dir, err := programs()
	must.OK(f.T, err)
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	f.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(dir, name), args...)
	cmd.Env = f.env
	return cmd
}

// both runs a program twice at the same time and returns what both print.
func (f *fleet) both(name string, args ...string) string {
	f.Helper()
	var wait sync.WaitGroup
	outs := make([]string, 2)
	for i := range outs {
		cmd := f.command(name, args...)
		wait.Go(func() {
			out, err := cmd.CombinedOutput()
			if outs[i] = string(out); err != nil {
				f.Errorf("%s: %v\n%s", name, err, out)
			}
		})
	}
	wait.Wait()
	return outs[0] + outs[1]
}

func TestOrdersArePackedOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	postgres := servers.Test(t, func() (*servers.Server, error) { return servers.Postgres() })
	f.env = append(f.env, fmt.Sprintf("DATABASE_URL=postgres://postgres@%s/postgres?sslmode=disable", postgres.Addr))
	first := f.command("orders")
	out, err := first.CombinedOutput() // it makes the tables
	if err != nil || len(regexp.MustCompile(`(?m)^packed order [1-5] with token [0-9]+$`).FindAll(out, -1)) != 5 {
		t.Errorf("the first: %v\n%s", err, out)
	}
	if again := f.both("orders"); again != "" {
		t.Errorf("packed again: %s", again)
	}
}

func TestCronRunsOnceAMinute(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	if left := time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)); left < 10*time.Second {
		time.Sleep(left) // two minutes are two runs
	}
	out := f.both("cron", "now")
	if strings.Count(out, "running report@") != 1 || strings.Count(out, "another replica has it") != 1 {
		t.Errorf("got\n%s", out)
	}
}

func TestLeaderIsFollowed(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	first, second := f.command("leader"), f.command("leader")
	leads := func(cmd *exec.Cmd) *os.File {
		read, write, err := os.Pipe()
		must.OK(t, err)
		cmd.Stdout = write
		must.OK(t, cmd.Start())
		must.OK(t, write.Close())
		return read
	}
	line := make([]byte, 16)
	one := leads(first)
	_, err := one.Read(line)
	must.OK(t, err)
	two := leads(second)
	must.OK(t, first.Process.Signal(syscall.SIGTERM))
	must.OK(t, first.Wait())
	if _, err := two.Read(line); err != nil || !strings.HasPrefix(string(line), "leading, term") {
		t.Errorf("the second: %v, %q", err, line)
	}
	must.OK(t, second.Process.Signal(syscall.SIGTERM))
	must.OK(t, second.Wait())
}

func TestLimitHolds(t *testing.T) {
	t.Parallel()
	out := newFleet(t).both("limit")
	if strings.Count(out, "begin ") != 10 || strings.Count(out, "end ") != 10 {
		t.Errorf("got\n%s", out)
	}
	// One program prints in the order of what it does, and never has more than two permits.
	alone := newFleet(t).command("limit")
	text, err := alone.CombinedOutput()
	must.OK(t, err)
	held, most := 0, 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "begin") {
			held++
		} else {
			held--
		}
		most = max(most, held)
	}
	if most != 2 || held != 0 {
		t.Errorf("at most %d at once, want 2:\n%s", most, text)
	}
}

func TestMigrationNamesItsHolder(t *testing.T) {
	t.Parallel()
	out := newFleet(t).both("migrate")
	if strings.Count(out, "migrating with token ") != 2 || !strings.Contains(out, " with schema 7\n") {
		t.Errorf("got\n%s", out)
	}
}
