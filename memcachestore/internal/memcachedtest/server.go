// SPDX-License-Identifier: Apache-2.0

// Package memcachedtest starts real servers for tests, on free loopback ports, and
// stops them.
package memcachedtest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// Server is a running memcached.
type Server struct {
	// Addr is host:port.
	Addr string
	cmd  *exec.Cmd
	args []string
}

// Start starts a memcached and ends it with the test.
func Start(t testing.TB, extra ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("memcached"); err != nil {
		t.Skip("memcached is not installed; on Debian: apt-get install memcached")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: l.Addr().String()}
	l.Close()
	_, port, _ := net.SplitHostPort(s.Addr)
	s.args = append([]string{"-l", "127.0.0.1", "-p", port, "-U", "0"}, extra...)
	if os.Getuid() == 0 {
		s.args = append(s.args, "-u", "nobody") // memcached asks for that
	}
	t.Cleanup(s.Kill)
	s.Run(t)
	return s
}

// Run starts the server and waits until it answers.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	s.cmd = exec.Command("memcached", s.args...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
		if err == nil {
			conn.Close()
			return
		}
	}
	t.Fatalf("memcached on %s does not answer", s.Addr)
}

// Kill ends the server at once.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Stop suspends the server until the returned function is called. A signal takes
// its time to reach every thread, and one of them could still answer.
func (s *Server) Stop() (resume func()) {
	_ = s.cmd.Process.Signal(syscall.SIGSTOP)
	servers.AwaitStopped(s.cmd.Process.Pid)
	return func() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }
}

// Stats returns the server's counters.
func (s *Server) Stats(t testing.TB) map[string]int64 {
	t.Helper()
	conn, err := net.DialTimeout("tcp", s.Addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "stats\r\nquit\r\n")
	counters := map[string]int64{}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var name string
		var value int64
		if n, _ := fmt.Sscanf(lines.Text(), "STAT %s %d", &name, &value); n == 2 {
			counters[name] = value
		}
	}
	return counters
}
