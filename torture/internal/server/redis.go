// SPDX-License-Identifier: Apache-2.0

// Package server starts real servers, stops them and does to them what happens
// to servers: SIGSTOP, kill -9, a restart with or without their data. Every
// server is a child of this process, on a free loopback port, with a folder of
// its own that Stop removes; it does not outlive us.
package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrMissing: the program is not installed. The error says how to install it.
var ErrMissing = errors.New("not installed")

// patience is how long a server may take to start, on a machine that is busy.
const patience = 60 * time.Second

// Redis is one redis-server, running or not.
type Redis struct {
	// Addr is host and port, Port the port alone; both stay over a restart.
	Addr string
	Port int

	binary string
	args   []string
	dir    string

	mu   sync.Mutex
	cmd  *exec.Cmd
	over chan struct{}
}

// StartRedis starts a server that writes every command to its log of commands
// (fsync each second), with more arguments if given.
func StartRedis(args ...string) (*Redis, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("redis-server is %w; on Debian: apt-get install redis-server", ErrMissing)
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "torture-redis")
	if err != nil {
		return nil, err
	}
	r := &Redis{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Port: port, binary: binary, args: args, dir: dir}
	if err := r.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return r, nil
}

// Start starts a server that was killed, with the data it has on disk.
func (r *Redis) Start() error {
	args := append([]string{"--port", strconv.Itoa(r.Port), "--bind", "127.0.0.1", "--dir", r.dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--protected-mode", "no"}, r.args...)
	cmd := exec.Command(r.binary, args...)
	return r.run(cmd, "Ready to accept connections")
}

// run starts a command and waits for the line that says it is ready.
func (r *Redis) run(cmd *exec.Cmd, sign string) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	over, ready := make(chan struct{}), make(chan struct{})
	var said strings.Builder
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			fmt.Fprintln(&said, lines.Text())
			if strings.Contains(lines.Text(), sign) {
				close(ready)
				break
			}
		}
		_, _ = io.Copy(io.Discard, out) // a full pipe would stop the server
		_ = cmd.Wait()
		close(over)
	}()
	select {
	case <-ready:
	case <-over:
		return fmt.Errorf("the server on %s ended before it was ready:\n%s", r.Addr, said.String())
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		<-over
		return fmt.Errorf("the server on %s was not ready within %v", r.Addr, patience)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cmd, r.over = cmd, over
	return nil
}

// Pause stops the process where it is; Resume lets it go on.
func (r *Redis) Pause() error { return r.signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (r *Redis) Resume() error { return r.signal(syscall.SIGCONT) }

func (r *Redis) signal(s syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return errors.New("the server does not run")
	}
	return r.cmd.Process.Signal(s)
}

// Kill ends the process with kill -9 and waits until it is gone.
func (r *Redis) Kill() {
	r.mu.Lock()
	cmd, over := r.cmd, r.over
	r.cmd = nil
	r.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Kill()
		<-over
	}
}

// Wipe removes the data of a server that does not run.
func (r *Redis) Wipe() error {
	entries, err := os.ReadDir(r.dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(r.dir, e.Name())))
	}
	return err
}

// Stop ends the server and removes its folder.
func (r *Redis) Stop() {
	r.Kill()
	_ = os.RemoveAll(r.dir)
}

// FreePort returns a loopback port that nobody used a moment ago.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
