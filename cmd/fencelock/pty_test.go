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
	if err != nil {
		t.Fatal(err)
	}
	return user, program
}

// inTerminal runs the program in a terminal of its own and collects what it shows.
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
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := user.Read(buf)
			if err != nil {
				return
			}
			_, _ = shown.Write(buf[:n])
		}
	}()
	return p, user, shown
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;?>=<]*[a-zA-Z~]|\x1b[=>]|\x1b\\][^\x07\x1b]*(\x07|\x1b\\\\)")

// plain is a text without escape sequences and spaces: what is on the screen
// already, blanks too, is jumped over.
func plain(s string) string { return strings.ReplaceAll(escapes.ReplaceAllString(s, ""), " ", "") }

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
	until(t, "the command was told", func() bool { return strings.Contains(shown.String(), "interrupted") })
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
		until(t, what, func() bool { return strings.Contains(plain(shown.String()), what) })
	}
	sees("becauseorders/1")
	sees("becauseorders/2")
	if _, err := user.WriteString("j\r"); err != nil {
		t.Fatal(err)
	}
	sees("unlessrenewed")
	if err := unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 50, Row: 10}); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Process.Signal(syscall.SIGWINCH)
	if _, err := user.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	p.want(0)
	until(t, "the screen is given back", func() bool { return strings.Contains(shown.String(), "\x1b[?1049l") })
	contains(t, fencelockCLI(t, s.url(), "top").want(64).err.String(), "needs a terminal")
}
