// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/agent"
	"github.com/fencelock/fencelock/internal/must"
)

// startAgent acquires a lock and returns the handle and the process behind it.
func startAgent(t testing.TB, s *redisServer, name string, more ...string) (handle string, pid int) {
	t.Helper()
	p := fencelockCLI(t, s.url(), append([]string{"acquire", name, "-o", "json"}, more...)...).want(0)
	var r agent.Reply
	if err := json.Unmarshal([]byte(p.out.String()), &r); err != nil {
		t.Fatalf("%s: %v", p.out.String(), err)
	}
	pid = ownerPID(t, r.Owner)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return r.Handle, pid
}

// TestAgentKeepsNothingOfTheScript: a pipe ends, a flock is free and a file system can be
// unmounted when the script has ended, although the agent goes on.
func TestAgentKeepsNothingOfTheScript(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	dir := t.TempDir()
	p := script(t, s.url(), `exec 9>`+dir+`/lock; flock 9; cd `+dir+`
		{ eval "$($F acquire a)" || exit; } 3>&1 | cat; echo ended`).want(0)
	contains(t, p.out.String(), "ended")
	st, err := s.client(t, nil).Inspect(t.Context(), "a")
	if err != nil || len(st.Holders) != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
	pid := ownerPID(t, st.Holders[0].Record.Owner)
	defer func() { _ = syscall.Kill(pid, syscall.SIGTERM) }()
	if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil || cwd != "/" {
		t.Errorf("it is in %s, %v", cwd, err)
	}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(fds) == 0 {
		t.Fatal(fds, err)
	}
	for _, fd := range fds {
		if to, _ := os.Readlink(fd); strings.HasPrefix(to, dir) || strings.HasPrefix(to, "pipe:") {
			t.Errorf("%s is %s", fd, to)
		}
	}
	file, err := os.Open(dir + "/lock")
	if err == nil {
		defer file.Close()
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		t.Errorf("the flock of the script is still held: %v", err)
	}
}

// TestMarkDescriptors: where the kernel cannot mark all at once, each is marked.
func TestMarkDescriptors(t *testing.T) {
	var fds [2]int
	must.OK(t, syscall.Pipe(fds[:]))
	defer func() { _, _ = syscall.Close(fds[0]), syscall.Close(fds[1]) }()
	markDescriptors()
	for _, fd := range fds {
		if flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0); errno != 0 || flags&syscall.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d: flags %x, %v", fd, flags, errno)
		}
	}
}

// TestAgentAnswersBesideASilentClient: a client that connects and sends nothing, or
// nonsense, delays no other.
func TestAgentAnswersBesideASilentClient(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	handle, _ := startAgent(t, s, "a", "--timeout", "30s")
	for _, text := range []string{"", "{", `{"op":"relea`} {
		conn, err := net.Dial("unix", handle)
		must.OK(t, err)
		defer conn.Close()
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	// An agent that serves one client after the other would answer after a minute.
	fencelockCLI(t, s.url(), "renew", "--handle", handle, "--timeout", "10s").want(0)
	fencelockCLI(t, s.url(), "release", "--handle", handle, "--timeout", "10s").want(0)
}

// TestAgentLeavesNothing: the directory of the socket goes with the agent, and with an
// acquire that fails.
func TestAgentLeavesNothing(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	dir := t.TempDir()
	left := func() []os.DirEntry {
		found, err := os.ReadDir(dir)
		must.OK(t, err)
		return found
	}
	p := script(t, s.url(), `export XDG_RUNTIME_DIR=`+dir+`; eval "$($F acquire a --while $$)" || exit
		$F acquire a --try; echo "code $?"; ls `+dir+`; $F release`).want(0)
	contains(t, p.out.String(), "code 75")
	if n := strings.Count(p.out.String(), "fencelock-"); n != 1 {
		t.Errorf("%d directories while one lock is held: %s", n, p.out.String())
	}
	until(t, "nothing is left", func() bool { return len(left()) == 0 })
}

// TestReleaseTwice: a lock that was given back was not lost. The exit code is that of a
// loss, because the agent may as well have ended with --max.
func TestReleaseTwice(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	handle, pid := startAgent(t, s, "a")
	fencelockCLI(t, s.url(), "release", "--handle", handle).want(0)
	until(t, "the agent has ended", func() bool { return !alive(pid) })
	for _, again := range []string{"release", "renew"} {
		text := fencelockCLI(t, s.url(), again, "--handle", handle).want(exitLost).err.String()
		contains(t, text, "it was released, or --max was over")
		if strings.Contains(text, "lost") || strings.Contains(text, "dial unix") {
			t.Errorf("%s: %s", again, text)
		}
	}
	handle, pid = startAgent(t, s, "b")
	_ = syscall.Kill(pid, syscall.SIGKILL)
	until(t, "the agent is dead", func() bool { return !alive(pid) })
	contains(t, fencelockCLI(t, s.url(), "release", "--handle", handle).want(exitLost).err.String(), "lease lost")
}

// TestSocketDirectory: only the user can open the socket, because a client can release
// the lock; and no other user can take the name before.
func TestSocketDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", dir)
	other := filepath.Join(dir, fmt.Sprintf("fencelock-%d", os.Getuid()))
	must.OK(t, os.Mkdir(other, 0o777))
	long := filepath.Join(dir, strings.Repeat("long", 25))
	must.OK(t, os.Mkdir(long, 0o777))
	for _, runtime := range []string{"", "", long, filepath.Join(dir, "missing")} {
		t.Setenv("XDG_RUNTIME_DIR", runtime)
		socket, err := newSocket()
		must.OK(t, err)
		info, err := os.Stat(filepath.Dir(socket))
		if err != nil || info.Mode().Perm() != 0o700 || filepath.Dir(socket) == other || !filepath.IsAbs(socket) || len(socket) > maxSocket {
			t.Errorf("%s: %v, %v", socket, info, err)
		}
		_ = os.Remove(filepath.Dir(socket))
	}
}
