// SPDX-License-Identifier: Apache-2.0

//go:build unix

package warden

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
)

// TestMain makes the test binary a warden where the program would be one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Arg {
		os.Exit(Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

const patience = 30 * time.Second

func begin(t *testing.T, life time.Duration, script string) *Child {
	t.Helper()
	c, err := Start([]string{"sh", "-c", script}, os.Environ(), Now().Add(life))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Kill()
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

// TestDeadMansSwitch: nobody says anything, and it is killed in time.
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

// TestUntilMoves: as long as somebody says so, it lives.
func TestUntilMoves(t *testing.T) {
	c := begin(t, 2*time.Second, `sleep 0.3; exit 4`)
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
		t.Skip("elsewhere than on Linux whoever leaves the group escapes")
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
			t.Errorf("told of a loss: %v; the stray lives: %v", term, lives)
		}
		_ = syscall.Kill(stray, syscall.SIGKILL)
	}
}

// TestDescriptors: the command gets what we were given and nothing of the warden's.
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
