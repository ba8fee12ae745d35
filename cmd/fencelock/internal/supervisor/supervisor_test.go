// SPDX-License-Identifier: Apache-2.0

//go:build unix

package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// TestMain makes the test binary a supervisor where the program would be one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Arg {
		if file := os.Getenv(muteVariable); file != "" {
			dieMute(file, os.Args[2:])
		}
		os.Exit(Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

const patience = 30 * time.Second

func begin(t *testing.T, renewal time.Duration, script string) *Child {
	t.Helper()
	c, err := Start([]string{"sh", "-c", script}, os.Environ(), Now().Add(renewal))
	must.OK(t, err)
	t.Cleanup(func() {
		c.Kill(patience)
		<-c.Empty()
	})
	return c
}

func ends(t *testing.T, c *Child) Exit {
	t.Helper()
	select {
	case <-c.Empty():
		return <-c.Exited()
	case <-time.After(patience):
		t.Fatal("it has not ended")
		return Exit{}
	}
}

func TestExits(t *testing.T) {
	if e := ends(t, begin(t, time.Hour, "exit 3")); e != (Exit{Code: 3}) || e.Status() != 3 {
		t.Errorf("got %+v", e)
	}
	if e := ends(t, begin(t, time.Hour, "kill -15 $$")); e != (Exit{Signal: 15}) && e.Signal != 15 || e.Status() != 143 {
		t.Errorf("got %+v", e)
	}
	if _, err := Start([]string{"no-such-command"}, nil, Now().Add(time.Hour)); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if _, err := Start([]string{"/dev/null"}, nil, Now().Add(time.Hour)); !errors.Is(err, ErrNotExecutable) {
		t.Errorf("got %v", err)
	}
}

// TestDeadMansSwitch: without an order the command is killed in time.
func TestDeadMansSwitch(t *testing.T) {
	began := time.Now()
	c := begin(t, 500*time.Millisecond, `trap "" TERM HUP INT; while :; do sleep 1; done`)
	if e := ends(t, c); e.Signal != int(syscall.SIGKILL) || !c.Overdue() {
		t.Errorf("got %+v, overdue %v", e, c.Overdue())
	}
	if took := time.Since(began); took < 450*time.Millisecond {
		t.Errorf("killed after %v", took)
	}
}

// TestAt: a process that stands still between two reads of the clock does not move the
// instant of a deadline to a later one.
func TestAt(t *testing.T) {
	var clock Instant = 1000
	const deadline = Instant(5000)
	got := at(func() Instant {
		defer func() { clock += 3000 }()
		return clock
	}, func() time.Duration {
		defer func() { clock += 3000 }()
		return deadline.Sub(clock)
	})
	if got > deadline {
		t.Errorf("%d is after the deadline at %d", got, deadline)
	}
	if d := At(time.Now().Add(time.Hour)).Sub(Now()); d > time.Hour || d < time.Hour-patience {
		t.Errorf("an hour is %v", d)
	}
}

// TestTooLate: a command whose time is over is not started.
func TestTooLate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ran")
	if c, err := Start([]string{"touch", file}, os.Environ(), Now().Add(-time.Millisecond)); !errors.Is(err, ErrTooLate) {
		t.Errorf("got %v, %v", c, err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it was started")
	}
}

// TestUntilMoves: as long as the holder moves Until, the command lives.
func TestUntilMoves(t *testing.T) {
	c := begin(t, patience, `sleep 0.3; exit 4`)
	c.Until(Now().Add(time.Hour))
	if e := ends(t, c); e != (Exit{Code: 4}) || c.Overdue() {
		t.Errorf("got %+v", e)
	}
	c = begin(t, time.Hour, `sleep 300`)
	c.Until(Now().Add(10 * time.Millisecond))
	if e := ends(t, c); e.Signal != int(syscall.SIGKILL) || !c.Overdue() {
		t.Errorf("got %+v", e)
	}
}

// TestWhoIsLeft: what left the group may stay when the command ends by itself, and
// not when the lock is about to be lost.
func TestWhoIsLeft(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere than on Linux a process that leaves the group escapes")
	}
	for _, term := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "pid")
		c := begin(t, time.Hour, `trap 'exit 0' TERM USR1; setsid sh -c 'echo $$ >`+file+`; exec sleep 300' & while :; do sleep 0.02; done`)
		stray := readPID(t, file)
		if term {
			c.Term()
		} else {
			c.Signal(syscall.SIGUSR1)
		}
		if e := ends(t, c); e.Code != 0 {
			t.Errorf("got %+v", e)
		}
		if lives := syscall.Kill(stray, 0) == nil; lives == term {
			t.Errorf("got TERM: %v; the stray lives: %v", term, lives)
		}
		_ = syscall.Kill(stray, syscall.SIGKILL)
	}
}

// TestCtrlZBeforeTheOrderIsResumed: the command has the terminal a moment before the
// supervisor gets to know it, and a ctrl-Z of that moment does not leave it stopped.
func TestCtrlZBeforeTheOrderIsResumed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("states of processes are read from /proc")
	}
	c := begin(t, time.Hour, "kill -TSTP $$; exit 4")
	end := time.Now().Add(patience)
	for state := ""; state != "T"; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it is not stopped, but %q", state)
		}
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(c.PID) + "/stat")
		must.OK(t, err)
		_, after, _ := strings.Cut(string(stat), ") ")
		state, _, _ = strings.Cut(after, " ")
	}
	c.Foreground()
	if e := ends(t, c); e != (Exit{Code: 4}) {
		t.Errorf("got %+v", e)
	}
}

// TestSupervisorStandsStill: a supervisor that does not obey is done away with, and nothing of
// the command survives it. A holder that sends it more than a pipe holds goes on.
func TestSupervisorStandsStill(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere than on Linux a process that leaves the group escapes")
	}
	dir := t.TempDir()
	c := begin(t, time.Hour, `trap "" TERM; setsid sh -c 'echo $$ >`+dir+`/stray; exec sleep 300' & echo $$ >`+dir+`/self; while :; do sleep 1; done`)
	self, stray := readPID(t, dir+"/self"), readPID(t, dir+"/stray")
	must.OK(t, c.supervisor.Signal(syscall.SIGSTOP))
	for range 70000 / len(`{"signal":0}`) {
		_ = c.orders.SetWriteDeadline(time.Now().Add(sendWithin))
		if send(c.orders, order{Foreground: true}) != nil {
			break
		}
	}
	c.Term()
	c.Kill(10 * time.Millisecond)
	if e := ends(t, c); e.Signal != int(syscall.SIGKILL) {
		t.Errorf("got %+v", e)
	}
	for _, pid := range []int{self, stray} {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("%d lives", pid)
		}
	}
}

// TestZombieOfADaemon: a dead process that is not collected is nothing to wait for,
// although it is still of the group: its parent may be a daemon that is allowed to stay.
func TestZombieOfADaemon(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere than on Linux it is unknown which processes of a group are dead")
	}
	file := filepath.Join(t.TempDir(), "pid")
	c := begin(t, time.Hour, `( sleep 0.01 & exec setsid sh -c 'echo $$ >`+file+`; exec sleep 300' ) &
		while ! ps --ppid $! -o stat= | grep -q Z; do sleep 0.02; done; exit 3`)
	daemon := readPID(t, file)
	defer func() { _ = syscall.Kill(daemon, syscall.SIGKILL) }()
	if e := ends(t, c); e != (Exit{Code: 3}) {
		t.Errorf("got %+v", e)
	}
	if syscall.Kill(daemon, 0) != nil {
		t.Error("the daemon was killed")
	}
}

// TestDescriptors: the command gets what we were given and nothing of the supervisor's.
func TestDescriptors(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	file := filepath.Join(t.TempDir(), "list")
	ends(t, begin(t, time.Hour, `ls -l /proc/self/fd >`+file))
	text, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(text), " 100 ->") || strings.Contains(string(text), " 101 ->") {
		t.Errorf("%v: %s", err, text)
	}
}

func readPID(t *testing.T, file string) int {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		text, _ := os.ReadFile(file)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			return pid
		}
	}
	t.Fatal("no process id in " + file)
	return 0
}

// TestOrderIsSentLate: a holder that a busy machine held up still sends a signal, and one
// whose pipe is full does not wait.
func TestOrderIsSentLate(t *testing.T) {
	r, w, err := os.Pipe()
	must.OK(t, err)
	defer r.Close()
	c := &Child{orders: w}
	late := time.Now().Add(-time.Second)
	for range 2 { // the deadline of the first must not stop the second
		c.sendBy(order{Signal: int(syscall.SIGHUP)}, late)
	}
	for range 10_000 { // more than a pipe holds
		c.sendBy(order{Until: 1}, late)
	}
	_ = w.Close()
	got := 0
	receive(r, func(o order) {
		if o.Signal == int(syscall.SIGHUP) {
			got++
		}
	})
	if got != 2 {
		t.Errorf("%d of 2 signals were sent", got)
	}
}
