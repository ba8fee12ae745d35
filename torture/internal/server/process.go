// SPDX-License-Identifier: Apache-2.0

// Package server starts real servers, stops them and does to them what happens
// to servers: SIGSTOP, kill -9, a restart with or without their data. Every
// server is a child of this process, on a free loopback port, with a folder of
// its own that Stop removes; it does not outlive us.
package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/torture/internal/fault"
)

// ErrMissing: the program is not installed. The error says how to install it.
var ErrMissing = servers.ErrMissing

// patience is how long a server may take to start, on a machine that is busy.
const patience = 60 * time.Second

// Server is one server of an engine, running or not.
type Server interface {
	// Start starts a server that was killed, with the data it has on disk.
	Start() error
	// Pause stops the process where it is; Resume lets it go on.
	Pause() error
	Resume() error
	// Kill ends the process as a crash does, and returns when it is gone.
	Kill()
	// Stop ends the server and removes its folder.
	Stop()
}

// Wiper is a server that can be started without its data.
type Wiper interface {
	// Wipe removes the data of a server that does not run.
	Wipe() error
}

// Commander is a server to which some faults are done by a command.
type Commander interface {
	Do(ctx context.Context, v fault.Verb) error
}

// Process is a server that is one process of ours.
type Process struct {
	// Addr is host and port, Port the port alone; both stay over a restart.
	Addr string
	Port int

	dir     string
	command func() *exec.Cmd
	// sign is what it prints when it is ready; if it prints nothing, answers tells.
	sign    string
	answers func() bool
	// clock is its clock if that can be set, disk where its small disk is.
	clock *Clock
	disk  string

	mu   sync.Mutex
	cmd  *exec.Cmd
	over chan struct{}
}

// Start implements Server.
func (p *Process) Start() error {
	cmd := p.command()
	out, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = w, w
	err = servers.Start(cmd)
	_ = w.Close()
	if err != nil {
		return errors.Join(err, out.Close())
	}
	over, ready := make(chan struct{}), make(chan struct{})
	p.is(cmd, over) // it dials other servers before it is ready, and they ask whose the connection is
	var said strings.Builder
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			fmt.Fprintln(&said, lines.Text())
			if p.sign != "" && strings.Contains(lines.Text(), p.sign) {
				close(ready)
				break
			}
		}
		_, _ = io.Copy(io.Discard, out) // a full pipe would stop the server
		_ = out.Close()
		_ = cmd.Wait()
		close(over)
	}()
	if p.answers != nil {
		go func() {
			for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				if p.answers() {
					close(ready)
					return
				}
			}
		}()
	}
	select {
	case <-ready:
	case <-over:
		p.is(nil, nil)
		return fmt.Errorf("the server on %s ended before it was ready:\n%s", p.Addr, said.String())
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		<-over
		p.is(nil, nil)
		return fmt.Errorf("the server on %s was not ready within %v", p.Addr, patience)
	}
	return nil
}

// is notes the process that runs, nil for none.
func (p *Process) is(cmd *exec.Cmd, over chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.over = cmd, over
}

// Pause implements Server.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume implements Server.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return errors.New("the server does not run")
	}
	return p.cmd.Process.Signal(s)
}

// PID returns the number of the process, ready or not, 0 if it does not run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Kill implements Server.
func (p *Process) Kill() {
	p.mu.Lock()
	cmd, over := p.cmd, p.over
	p.cmd = nil
	p.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Kill()
		<-over
	}
}

// Stop implements Server.
func (p *Process) Stop() {
	p.Kill()
	p.clock.remove()
	if p.disk != "" {
		_ = syscall.Unmount(p.disk, 0)
	}
	_ = os.RemoveAll(p.dir)
}

// place is a folder and a free address.
func place(name string) (dir, addr string, port int, err error) {
	if port, err = servers.FreePort(); err == nil {
		dir, err = os.MkdirTemp("", "torture-"+name)
	}
	return dir, fmt.Sprintf("127.0.0.1:%d", port), port, err
}
