// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/fencelock/fencelock/lab/torture/internal/history"
)

// child is a process of the suite: this program again, with another first
// argument. It writes its history to its standard output and ends when its
// standard input does.
type child struct {
	who    string
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr bytes.Buffer
	over   chan struct{} // closed when it ended and all it wrote was read
	once   sync.Once
}

// start starts a child, by a function, with a first line of input, and passes on its events.
func start(by func(*exec.Cmd) error, who string, args []string, first any, add func(history.Event)) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{who: who, cmd: exec.Command(self, args...), over: make(chan struct{})}
	c.cmd.Stderr = &c.stderr
	c.in, err = c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Not StdoutPipe: Wait would close it before all was read.
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.cmd.Stdout = w
	err = by(c.cmd)
	_ = w.Close()
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	go func() {
		defer close(c.over)
		err := history.Read(out, add)
		_ = out.Close()
		_ = c.cmd.Wait()
		if err != nil { // standard error was read to its end
			fmt.Fprintf(&c.stderr, "%v\n", err)
		}
	}()
	return c, c.send(first)
}

// send writes a line to the child's input.
func (c *child) send(what any) error {
	line, err := json.Marshal(what)
	if err == nil {
		_, err = c.in.Write(append(line, '\n'))
	}
	return err
}

// signal sends a signal; one that comes too late does nothing.
func (c *child) signal(s syscall.Signal) { _ = c.cmd.Process.Signal(s) }

// kill ends the child with kill -9 and waits until all it wrote was read.
func (c *child) kill() {
	c.signal(syscall.SIGKILL)
	<-c.over
}

// finish lets the child end by itself, and kills it if it does not.
func (c *child) finish(patience time.Duration) {
	c.once.Do(func() { _ = c.in.Close() })
	select {
	case <-c.over:
	case <-time.After(patience):
		c.kill()
	}
}
