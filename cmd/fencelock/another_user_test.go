// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// otherUser is the unprivileged user 65534, for processes that must not be root's.
const otherUser = 65534

// becomeRoot makes the test binary a program that becomes root as sudo does, and runs
// what stands after it.
const becomeRoot = "__become_root"

func init() {
	if len(os.Args) > 2 && os.Args[1] == becomeRoot {
		err := syscall.Setresuid(0, 0, 0) // the real user, too: then no other user may signal it
		if err == nil {
			err = syscall.Exec(os.Args[2], os.Args[2:], os.Environ())
		}
		os.Stderr.WriteString("become root: " + err.Error() + "\n")
		os.Exit(126)
	}
}

// asOtherUser makes a command run as another user, who can use its folders.
func asOtherUser(t testing.TB, c *exec.Cmd) {
	t.Helper()
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
	c.Env = append(c.Env, "HOME=/", "XDG_RUNTIME_DIR="+sharedDir(t, 0o700), "XDG_CONFIG_HOME=/nonexistent")
}

// sharedDir is a folder of otherUser's, below one that every user can pass.
func sharedDir(t testing.TB, mode os.FileMode) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can start processes of another user; as root: go test ./cmd/fencelock")
	}
	dir, err := os.MkdirTemp("", "fl-")
	must.OK(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chown(dir, otherUser, otherUser); err != nil {
		t.Skipf("this namespace has no other users: %v", err)
	}
	must.OK(t, os.Chmod(dir, mode))
	return dir
}

// copyProgram copies a program. This process does not write the copy itself: a command that
// a parallel test starts during the write inherits the open file for a moment, and executing
// a file that is open for writing fails (ETXTBSY).
func copyProgram(t testing.TB, from, to string) {
	t.Helper()
	if out, err := bounded(t, "cp", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
}

// sudo is a program that every user can run and that becomes root.
func sudo(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	must.OK(t, err)
	program := filepath.Join(sharedDir(t, 0o755), "sudo")
	copyProgram(t, self, program)
	err = os.Chmod(program, 0o755|os.ModeSetuid)
	var fs syscall.Statfs_t
	if err != nil || syscall.Statfs(program, &fs) != nil || fs.Flags&syscall.MS_NOSUID != 0 {
		t.Skipf("no set-user-ID programs here (%v); mount %s without nosuid", err, filepath.Dir(program))
	}
	return program
}

// TestRunBecomesAnotherUser: a command that becomes another user cannot be killed by us.
// It outlives the lock, and that is reported, with the process, and in the status.
func TestRunBecomesAnotherUser(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	program := sudo(t)
	for what, below := range map[string]string{"itself": "exec ", "its child": ""} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := sharedDir(t, 0o755)
			p := beginWith(t, s.url(), func(c *exec.Cmd) { asOtherUser(t, c) }, "run", what, "--ttl", "10s", "--status-file", dir+"/status", "--",
				"sh", "-c", below+program+" "+becomeRoot+` /bin/sh -c 'echo $$ >`+dir+`/self; while [ ! -e `+dir+`/end ]; do sleep 0.05; done'; true`)
			self := pidIn(t, dir+"/self")
			st, err := c.Inspect(t.Context(), what)
			if err == nil && len(st.Holders) == 1 {
				_, err = c.ForceUnlock(t.Context(), what, st.Holders[0].Token)
			}
			if err != nil {
				t.Fatalf("%+v, %v", st, err)
			}
			until(t, "the survivor is reported", func() bool {
				return strings.Contains(p.err.String(), "user root) belongs to another user and cannot be killed; it goes on without the lock")
			})
			if !alive(self) {
				t.Error("it was killed: the test shows nothing")
			}
			must.OK(t, os.WriteFile(dir+"/end", nil, 0o644))
			p.want(exitLost)
			contains(t, p.err.String(), "the command went on without the lock")
			for _, text := range []string{"the command was ended", "left processes in its group"} {
				if strings.Contains(p.err.String(), text) {
					t.Errorf("it says %q: %s", text, p.err.String())
				}
			}
			got := readStatus(t, dir+"/status")
			if got.Outcome != "lost" || len(got.Survivors) == 0 || got.Survivors[0].User != "root" {
				t.Errorf("got %+v", got)
			}
			found := false
			for _, v := range got.Survivors {
				found = found || v.PID == self && v.Command == "sh"
			}
			if !found {
				t.Errorf("%d is not among %+v", self, got.Survivors)
			}
		})
	}
}

// TestRunCannotSignalAnotherUser: a signal that does not reach all of the command is
// reported, and the lock is held until all of it has ended.
func TestRunCannotSignalAnotherUser(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	program := sudo(t)
	dir := sharedDir(t, 0o755)
	p := beginWith(t, s.url(), func(c *exec.Cmd) { asOtherUser(t, c) }, "run", "a", "--stop-time", "1s", "--",
		"sh", "-c", program+" "+becomeRoot+` /bin/sh -c 'echo $$ >`+dir+`/self; while [ ! -e `+dir+`/end ]; do sleep 0.05; done'; true`)
	pidIn(t, dir+"/self")
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	until(t, "both are reported", func() bool {
		return strings.Contains(p.err.String(), "does not get the signal") && strings.Contains(p.err.String(), "the lock is held until it ends")
	})
	contains(t, fencelockCLI(t, s.url(), "why", "a").want(0).out.String(), "held by 1")
	must.OK(t, os.WriteFile(dir+"/end", nil, 0o644))
	p.want(128 + int(syscall.SIGTERM))
}

// TestRunSupervisorDiesAboveAnotherUser: without the supervisor the holder reports what it
// cannot kill, and keeps the lock until that has ended.
func TestRunSupervisorDiesAboveAnotherUser(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	program := sudo(t)
	dir := sharedDir(t, 0o755)
	p := beginWith(t, s.url(), func(c *exec.Cmd) { asOtherUser(t, c) }, "run", "a", "--status-file", dir+"/status", "--",
		"sh", "-c", `trap 'exec `+program+" "+becomeRoot+` /bin/sh -c "echo \$\$ >`+dir+`/self; while [ ! -e `+dir+`/end ]; do sleep 0.05; done"' USR1
			echo $$ >`+dir+`/begun; while :; do sleep 0.05; done`)
	// A supervisor may die before it has reported that the command runs. A signal comes through only after that.
	pidIn(t, dir+"/begun")
	_ = p.cmd.Process.Signal(syscall.SIGUSR1)
	self := pidIn(t, dir+"/self")
	_ = syscall.Kill(parent(t, self), syscall.SIGKILL)
	until(t, "it is reported", func() bool {
		return strings.Contains(p.err.String(), "cannot be killed; the lock is held until it ends")
	})
	contains(t, fencelockCLI(t, s.url(), "why", "a").want(0).out.String(), "held by 1")
	must.OK(t, os.WriteFile(dir+"/end", nil, 0o644))
	p.want(137)
	if got := readStatus(t, dir+"/status"); len(got.Survivors) == 0 || got.Survivors[0].PID != self {
		t.Errorf("got %+v", got)
	}
}

// TestCommandsOfAnotherUser runs tests of the command as a user that is not root: some
// of what they show is true of root only by accident.
func TestCommandsOfAnotherUser(t *testing.T) {
	t.Parallel()
	path, err := binary()
	must.OK(t, err)
	dir := sharedDir(t, 0o755)
	for from, to := range map[string]string{path: "fencelock", os.Args[0]: "tests"} {
		copyProgram(t, from, filepath.Join(dir, to))
	}
	must.OK(t, os.Mkdir(filepath.Join(dir, "t"), 0o777))
	must.OK(t, os.Chmod(filepath.Join(dir, "t"), 0o777))
	const which = "^(TestRunKilledHard|TestRunStopped|TestRunBroken|TestRunForwardsSignals|TestRunLeftover|TestRunInATerminal|TestRunInAPipeAsks|" +
		"TestAcquireInAScript|TestAcquireLost|TestFailedAcquireInsideALock|TestRelease|TestSocketDirectory|TestAgent.*)$"
	tests := exec.Command(filepath.Join(dir, "tests"), "-test.run", which, "-test.v", "-test.timeout", (4 * patience).String()) // a hang shows its stacks
	tests.WaitDelay = time.Second
	tests.Env = append(cleanEnvironment(), "TMPDIR="+filepath.Join(dir, "t"), binaryVariable+"="+filepath.Join(dir, "fencelock"), "HOME=/")
	tests.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
	out, err := tests.CombinedOutput()
	if err != nil || strings.Count(string(out), "\n--- PASS: ") < 10 {
		t.Errorf("%v\n%s", err, out)
	}
}
