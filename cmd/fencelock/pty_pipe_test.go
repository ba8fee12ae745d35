// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// shellInTerminal runs a script in a terminal; $F is the program.
func shellInTerminal(t testing.TB, store, text string) (p *process, user *os.File, shown *lockedBuffer) {
	t.Helper()
	path, err := binary()
	must.OK(t, err)
	user, program := openTerminal(t, 80, 24)
	shown = &lockedBuffer{}
	p = beginWith(t, store, func(c *exec.Cmd) {
		c.Path, c.Args = "/bin/sh", []string{"sh", "-c", text}
		c.Env = append(c.Env, "F="+path)
		c.Stdin, c.Stdout, c.Stderr = program, program, program
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	})
	_ = program.Close()
	go follow(user, shown)
	return p, user, shown
}

// TestRunInAPipeAsks: a command whose output goes to a file or another program may ask a
// question on the terminal; it does not stay stopped with the lock.
func TestRunInAPipeAsks(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	for what, run := range map[string]string{
		"stdin":           `$F run "$L" -- sh -c 'printf "sure? "; read a; echo "got=$a"' | cat`,
		"/dev/tty":        `$F run "$L" -- sh -c 'read a </dev/tty; echo "got=$a"' </dev/null | cat`,
		"job control":     `set -m; $F run "$L" -- sh -c 'read a; echo "got=$a"' | cat`,
		"after a setting": `$F run "$L" -- sh -c 'stty -echo; read a; stty echo; echo "got=$a"' | cat`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p, user, shown := shellInTerminal(t, s.url(), `L="`+what+`"; `+run+`; read b; echo "then=$b"`)
			if _, err := user.WriteString("yes\n"); err != nil {
				t.Fatal(err)
			}
			until(t, "the command has read", func() bool { return strings.Contains(shown.String(), "got=yes") })
			if _, err := user.WriteString("mine\n"); err != nil {
				t.Fatal(err)
			}
			p.want(0)
			until(t, "the shell reads again", func() bool { return strings.Contains(shown.String(), "then=mine") })
		})
	}
}

// TestRunWantsTheTerminalInTheBackground: it cannot have it, and must not hold the lock
// forever without working.
func TestRunWantsTheTerminalInTheBackground(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	p, _, shown := shellInTerminal(t, s.url(), `set -m; $F run a -- sh -c 'read a </dev/tty' & wait $!; echo "code $?"`)
	p.want(0)
	until(t, "it is reported", func() bool {
		return strings.Contains(shown.String(), "wants the terminal and is stopped") && strings.Contains(shown.String(), "code 143")
	})
	fencelockCLI(t, s.url(), "run", "a", "--try", "--", "true").want(0)
	// A command that does not end for that is killed.
	p, _, shown = shellInTerminal(t, s.url(), `set -m; $F run a --stop-time 1s -- sh -c 'trap "" TERM; read a </dev/tty' & wait $!; echo "code $?"`)
	p.want(0)
	until(t, "it is killed", func() bool { return strings.Contains(shown.String(), "code 137") })
}

// TestRunComesToTheForeground: a command that waits for the terminal gets it when its
// job comes to the foreground.
func TestRunComesToTheForeground(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	p, user, shown := shellInTerminal(t, s.url(), `set -m; $F run a -- sh -c 'read a; echo "got=$a"' & read go; fg; echo "code $?"`)
	until(t, "it is reported", func() bool { return strings.Contains(shown.String(), "wants the terminal and is stopped") })
	if _, err := user.WriteString("go\nyes\n"); err != nil {
		t.Fatal(err)
	}
	p.want(0)
	until(t, "it has read", func() bool {
		return strings.Contains(shown.String(), "got=yes") && strings.Contains(shown.String(), "code 0")
	})
}

// TestRunEndsAStoppedCommand: a stopped process does not see a signal that asks it to
// end unless it is continued.
func TestRunEndsAStoppedCommand(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := begin(t, s.url(), "run", sig.String(), "--", "sh", "-c", `ulimit -c 0; echo $$ >`+dir+`/self; exec sleep 300`)
			self := pidIn(t, dir+"/self")
			must.OK(t, syscall.Kill(-self, syscall.SIGSTOP))
			until(t, "it is stopped", func() bool {
				stat, _ := os.ReadFile("/proc/" + strings.TrimSpace(readFile(t, dir+"/self")) + "/stat")
				return strings.Contains(string(stat), ") T ")
			})
			_ = p.cmd.Process.Signal(sig)
			p.want(128 + int(sig))
		})
	}
}

// TestRunTerminalCloses: a command that is stopped for want of a terminal ends with it.
func TestRunTerminalCloses(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	p, user, shown := shellInTerminal(t, s.url(), `set -m; $F run a -- sh -c 'read a </dev/tty' & wait $!`)
	until(t, "it is stopped", func() bool { return strings.Contains(shown.String(), "wants the terminal and is stopped") })
	_ = p.cmd.Process.Kill() // the leader of the session: its terminal goes with it
	_ = user.Close()
	until(t, "the lock is free", func() bool { st, err := c.Inspect(t.Context(), "a"); return err == nil && len(st.Holders) == 0 })
}

func readFile(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must.OK(t, err)
	return string(text)
}

// TestAcquireInATerminalPrintsHowToRelease: without eval the lock is held and the shell has no variables, so that
// the user learns how to release it. With eval stdout is a pipe, and there is nothing to learn.
func TestAcquireInATerminalPrintsHowToRelease(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	p, _, shown := inTerminal(t, s.url(), "acquire", "deploy")
	p.want(0)
	release := regexp.MustCompile(`fencelock release --handle '([^']+)'`)
	until(t, "the hint is shown", func() bool { return release.MatchString(shown.String()) })
	contains(t, shown.String(), "deploy is held now, until it is released, for at most 1h00m", "fencelock acquire --help shows the line")
	fencelockCLI(t, s.url(), "release", "--handle", release.FindStringSubmatch(shown.String())[1]).want(0)

	p, _, shown = inTerminal(t, s.url(), "acquire", "deploy", "--while", strconv.Itoa(os.Getpid()), "-o", "json")
	p.want(0)
	until(t, "the hint is shown", func() bool { return release.MatchString(shown.String()) })
	contains(t, shown.String(), "until process "+strconv.Itoa(os.Getpid())+" ends")
	fencelockCLI(t, s.url(), "release", "--handle", release.FindStringSubmatch(shown.String())[1]).want(0)

	p, _, shown = shellInTerminal(t, s.url(), `eval "$($F acquire deploy)" && $F release && echo released`)
	p.want(0)
	until(t, "the lock is released", func() bool { return strings.Contains(shown.String(), "released") })
	if strings.Contains(shown.String(), "--handle") {
		t.Errorf("with eval: %s", shown.String())
	}
}
