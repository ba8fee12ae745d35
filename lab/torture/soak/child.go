// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// child is a client process: this program again, with another first argument.
type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	reports chan Report
	errors  bytes.Buffer
	over    chan struct{}
}

// start starts a client and waits for its first report.
func start(cfg Config) (*child, Report, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, Report{}, err
	}
	c := &child{cmd: exec.Command(self, "client"), reports: make(chan Report, 1), over: make(chan struct{})}
	c.cmd.Stderr = &c.errors
	c.in, err = c.cmd.StdinPipe()
	if err != nil {
		return nil, Report{}, err
	}
	out, w, err := os.Pipe() // not StdoutPipe: Wait would close it before all was read
	if err != nil {
		return nil, Report{}, err
	}
	c.cmd.Stdout = w
	err = servers.Start(c.cmd)
	_ = w.Close()
	if err != nil {
		return nil, Report{}, errors.Join(err, out.Close())
	}
	go c.listen(out)
	first, err := c.ask(cfg, time.Minute)
	return c, first, err
}

// listen passes on what the client reports, until it ends.
func (c *child) listen(out io.ReadCloser) {
	defer close(c.over)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r Report
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			c.reports <- r
		}
	}
	_ = out.Close()
	_ = c.cmd.Wait()
}

// ask sends a line and waits for the report.
func (c *child) ask(what any, most time.Duration) (Report, error) {
	line, err := json.Marshal(what)
	if err == nil {
		_, err = c.in.Write(append(line, '\n'))
	}
	if err != nil {
		return Report{}, err
	}
	return c.await(most)
}

func (c *child) await(most time.Duration) (Report, error) {
	select {
	case r := <-c.reports:
		return r, nil
	case <-c.over:
		return Report{}, fmt.Errorf("a client ended by itself: %s", c.errors.String())
	case <-time.After(most):
		return Report{}, fmt.Errorf("a client did not report within %v", most)
	}
}

func (c *child) signal(s syscall.Signal) { _ = c.cmd.Process.Signal(s) }

// kill ends the client as a crash does.
func (c *child) kill() {
	c.signal(syscall.SIGKILL)
	for {
		select {
		case <-c.reports: // or the listener would be stuck
		case <-c.over:
			return
		}
	}
}

// finish lets the client close everything and returns its last report.
func (c *child) finish(most time.Duration) (Report, error) {
	_ = c.in.Close()
	for {
		r, err := c.await(most)
		if err != nil || r.Over {
			return r, err
		}
	}
}
