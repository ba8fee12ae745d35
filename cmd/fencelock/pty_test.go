// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fencelock/fencelock/internal/must"
)

// openTerminal makes a terminal of that size and returns both ends.
func openTerminal(t testing.TB, columns, rows uint16) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = user.Close() })
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows})
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	must.OK(t, err)
	return user, program
}

// inTerminal runs the program in a new terminal and collects what it shows.
func inTerminal(t testing.TB, store string, args ...string) (p *process, user *os.File, shown *lockedBuffer) {
	t.Helper()
	user, program := openTerminal(t, 100, 24)
	p = beginWith(t, store, func(c *exec.Cmd) {
		c.Stdin, c.Stdout, c.Stderr = program, program, program
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		c.Env = append(c.Env, "TERM=xterm-256color")
	}, args...)
	_ = program.Close()
	shown = &lockedBuffer{}
	go follow(user, shown)
	return p, user, shown
}

// follow collects what a terminal shows.
func follow(user *os.File, shown *lockedBuffer) {
	buf := make([]byte, 4096)
	for {
		n, err := user.Read(buf)
		if err != nil {
			return
		}
		_, _ = shown.Write(buf[:n])
	}
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;?>=<]*[a-zA-Z~]|\x1b[=>]|\x1b\\][^\x07\x1b]*(\x07|\x1b\\\\)")

// hasTerminal waits until the command reads from the terminal and gets its keys: it may write before.
func hasTerminal(t testing.TB, p *process, user *os.File) {
	t.Helper()
	until(t, "the command has the terminal", func() bool {
		group, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPGRP)
		return err == nil && group != p.cmd.Process.Pid
	})
}

// onScreen is a text without escape sequences and spaces: what is on the screen
// already, blanks too, is jumped over.
func onScreen(s string) string { return strings.ReplaceAll(escapes.ReplaceAllString(s, ""), " ", "") }

// TestRunInATerminal: the command reads from the terminal, ctrl-C is its own, and
// ctrl-Z does not leave it stopped while it holds a lock.
func TestRunInATerminal(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	p, user, shown := inTerminal(t, s.url(), "run", "a", "--", "sh", "-c",
		`trap 'echo interrupted; exit 5' INT; read line; echo "got $line"; while :; do sleep 0.05; done`)
	if _, err := user.WriteString("hello\n"); err != nil {
		t.Fatal(err)
	}
	until(t, "the command has read", func() bool { return strings.Contains(shown.String(), "got hello") })
	if _, err := user.WriteString("\x1a"); err != nil { // ctrl-Z
		t.Fatal(err)
	}
	if _, err := user.WriteString("\x03"); err != nil { // ctrl-C
		t.Fatal(err)
	}
	p.want(5)
	until(t, "the command got the signal", func() bool { return strings.Contains(shown.String(), "interrupted") })
}

// TestRunResumesALateStop: a process of the command that ctrl-Z reaches only after the
// command was continued does not stay stopped while the lock is held.
func TestRunResumesALateStop(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	dir := t.TempDir()
	// The command gets a CONT with the terminal, too: only one after ctrl-Z counts.
	p, user, shown := inTerminal(t, s.url(), "run", "a", "--", "sh", "-c", "cd "+dir+"\n"+
		`sh -c 'while [ ! -e late ]; do sleep 0.05; done' & child=$!
trap '[ -e pressed ] && { trap - CONT; kill -TSTP $child; touch late; }' CONT
echo ready; while [ ! -e late ]; do sleep 0.05; done; wait $child`)
	until(t, "the command runs", func() bool { return strings.Contains(shown.String(), "ready") })
	hasTerminal(t, p, user)
	must.OK(t, os.WriteFile(dir+"/pressed", nil, 0o644))
	if _, err := user.WriteString("\x1a"); err != nil { // ctrl-Z
		t.Fatal(err)
	}
	p.want(0)
}

// TestRunDiesOfCtrlC: a command that dies of ctrl-C takes the program with it by the
// same signal, so that a loop in a shell ends.
func TestRunDiesOfCtrlC(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	p, user, shown := inTerminal(t, s.url(), "run", "a", "--", "sh", "-c", `echo started; exec sleep 300`)
	until(t, "the command runs", func() bool { return strings.Contains(shown.String(), "started") })
	hasTerminal(t, p, user)
	if _, err := user.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	p.end()
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !ws.Signaled() || ws.Signal() != syscall.SIGINT {
		t.Errorf("got %v\n%s", p.cmd.ProcessState, shown.String())
	}
	fencelockCLI(t, s.url(), "run", "a", "--try", "--", "true").want(0)
}

// TestRunInAPipe: the reader of what the command writes keeps the terminal.
func TestRunInAPipe(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	path, err := binary()
	must.OK(t, err)
	user, program := openTerminal(t, 80, 24)
	shown := &lockedBuffer{}
	p := beginWith(t, s.url(), func(c *exec.Cmd) {
		// A shell without job control: all of the pipeline is one group.
		c.Path, c.Args = "/bin/sh", []string{"sh", "-c", path + ` run a -- sh -c 'echo started; exec sleep 2' | { read line; read key </dev/tty; echo "$line, then $key"; }`}
		c.Stdin, c.Stdout, c.Stderr = program, program, program
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	})
	_ = program.Close()
	go follow(user, shown)
	if _, err := user.WriteString("a key\n"); err != nil {
		t.Fatal(err)
	}
	p.want(0)
	until(t, "the reader read from the terminal", func() bool { return strings.Contains(shown.String(), "started, then a key") })
}

// TestTop: the view in a terminal shows locks, follows keys and quits cleanly.
func TestTop(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	holdAll(t, c, "orders/1", "orders/2")
	p, user, shown := inTerminal(t, s.url(), "top", "--every", "100ms")
	sees := func(what string) {
		t.Helper()
		until(t, what, func() bool { return strings.Contains(onScreen(shown.String()), what) })
	}
	sees("becauseorders/1")
	sees("becauseorders/2")
	if _, err := user.WriteString("j\r"); err != nil {
		t.Fatal(err)
	}
	sees("unlessrenewed")
	must.OK(t, unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 50, Row: 10}))
	_ = p.cmd.Process.Signal(syscall.SIGWINCH)
	// In fifty columns there is no room for all that stands between AGE and WAITING.
	if _, err := user.WriteString("\x1b"); err != nil {
		t.Fatal(err)
	}
	sees("NAMEHOLDERAGEWAITING")
	if _, err := user.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	p.want(0)
	until(t, "the screen is given back", func() bool { return strings.Contains(shown.String(), "\x1b[?1049l") })
	contains(t, fencelockCLI(t, s.url(), "top").want(64).err.String(), "needs a terminal")
}
