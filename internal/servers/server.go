// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package servers starts real servers for tests and measurements, on free loopback
// ports, and stops them: PostgreSQL, MariaDB, pgbouncer and Redis, one function each in
// engines.go. Engines that need more have a package of their own, such as zktest.
//
// A server does not outlive the process that started it, on Linux not even if that
// process is killed. If the programs are not installed the error is ErrMissing and says
// how to install them.
package servers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrMissing is returned if the programs of a server are not installed. The
// error says how to install them.
var ErrMissing = errors.New("not installed")

// patience is how long a server may take to start or to stop: far more than it
// needs, because test machines are slow and shared.
const patience = 60 * time.Second

// Server is one running server.
type Server struct {
	// Addr is host and port.
	Addr string
	// Port is the port alone.
	Port int
	// Env is the environment of the server when it is started the next time, nil for
	// ours.
	Env []string

	name  string
	dir   string
	bin   string   // where its other programs are
	args  []string // program and arguments
	ready string   // what it prints when it is ready
	halt  syscall.Signal
	cred  *syscall.Credential
	cmd   *exec.Cmd
	over  chan struct{} // closed when cmd has ended
}

// newServer makes the folder of a server. If we are root it belongs to the user
// that the server runs as, because databases refuse to run as root.
func newServer(name, as string) (*Server, error) {
	dir, err := os.MkdirTemp("", name)
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	s := &Server{name: name, dir: dir, Addr: fmt.Sprintf("127.0.0.1:%d", port), Port: port, halt: syscall.SIGTERM}
	if os.Geteuid() != 0 || as == "" {
		return s, nil
	}
	u, err := user.Lookup(as)
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	s.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return s, os.Chown(dir, uid, gid)
}

// command is a command that runs as the server's user and does not outlive us.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = mortal()
	cmd.SysProcAttr.Credential = s.cred
	return cmd
}

// once runs a command to its end.
func (s *Server) once(program string, args ...string) error {
	if out, err := s.command(program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	return nil
}

// start starts the server and waits until it is ready.
func (s *Server) start() error {
	s.cmd = s.command(s.args[0], s.args[1:]...)
	s.cmd.Env = s.Env
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	s.cmd.Stdout, s.cmd.Stderr = in, in
	err = Start(s.cmd)
	_ = in.Close()
	if err != nil {
		_ = out.Close()
		return err
	}
	ready, over, cmd := make(chan struct{}), make(chan struct{}), s.cmd
	s.over = over
	var log []string
	go func() {
		lines := bufio.NewScanner(out)
		seen := false
		for lines.Scan() {
			if !seen {
				log = append(log, lines.Text())
			}
			if !seen && strings.Contains(lines.Text(), s.ready) {
				seen = true
				close(ready)
			}
		}
		_, _ = io.Copy(io.Discard, out)
		_ = out.Close()
		_ = cmd.Wait()
		close(over)
	}()
	select {
	case <-ready:
		return nil
	case <-over:
		return fmt.Errorf("%s ended before it was ready:\n%s", s.name, strings.Join(log, "\n"))
	case <-time.After(patience):
		s.kill(syscall.SIGKILL)
		return fmt.Errorf("%s was not ready within %v", s.name, patience)
	}
}

func (s *Server) kill(sig syscall.Signal) {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(sig)
	select {
	case <-s.over:
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
	}
	s.cmd = nil
}

// Restart stops the server without letting it tidy up, and starts it again on
// the same port: what it had not made durable is lost.
func (s *Server) Restart() error {
	s.kill(s.halt)
	return s.start()
}

// Kill stops the server without letting it tidy up. Again starts it again.
func (s *Server) Kill() { s.kill(s.halt) }

// Again starts a server that was killed, on the same port, with what it had made
// durable.
func (s *Server) Again() error { return s.start() }

// Stop stops the server and removes its data.
func (s *Server) Stop() {
	s.kill(s.halt)
	_ = os.RemoveAll(s.dir)
}

// find looks for a program in the path and in folders where distributions hide
// it.
func find(program, install string, folders ...string) (string, error) {
	if p, err := exec.LookPath(program); err == nil {
		return p, nil
	}
	for _, f := range folders {
		if found, _ := filepath.Glob(filepath.Join(f, program)); len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", fmt.Errorf("%s is %w; on Debian: apt-get install %s", program, ErrMissing, install)
}

// PID is the number of the process that was started.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Pause stops the server and all its processes as they are, until resume is called. It
// returns when all stand still.
func (s *Server) Pause() (resume func()) {
	all := append([]int{s.cmd.Process.Pid}, children(s.cmd.Process.Pid)...)
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	for _, pid := range all {
		AwaitStopped(pid)
	}
	return func() {
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}

// children returns the processes that a process has started.
func children(pid int) (pids []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		text, _ := os.ReadFile(t)
		for _, f := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(f); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}
