// SPDX-License-Identifier: Apache-2.0

// Package rig starts child processes, mostly this program again, and speaks with them in lines.
//
//	parent ── a line of JSON for each order ──▶ standard input of the child
//	parent ◀── a line for each answer ── its standard output
//
// A child ends when its input does, and it ends with its parent. What it wrote before it died, or was killed, is read to the end.
package rig

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// Command is what to start.
type Command struct {
	// Name is that of the child in errors.
	Name string
	// Program is the program, this one if it is empty.
	Program string
	Args    []string
	Env     []string // beside the environment of this process
	// Stderr is where the child's standard error goes. If nil it is kept, for errors.
	Stderr io.Writer
	// Start starts it, servers.Start if nil.
	Start func(*exec.Cmd) error
	// Read takes what the child writes. If nil, Ask and Next do.
	Read func(out io.Reader) error
}

// Child is a child process.
type Child struct {
	Name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr bytes.Buffer
	lines  chan []byte   // closed at the end of the output
	quit   chan struct{} // closed when nobody takes the lines any more
	stop   sync.Once
	over   chan struct{}
	failed error // when over is closed: why it ended badly
}

// Start starts a child, which is killed when ctx ends.
func Start(ctx context.Context, c Command) (*Child, error) {
	if c.Program == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		c.Program = self
	}
	p := &Child{Name: c.Name, cmd: exec.CommandContext(ctx, c.Program, c.Args...), lines: make(chan []byte), quit: make(chan struct{}), over: make(chan struct{})}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), c.Env...), c.Stderr
	if c.Stderr == nil {
		p.cmd.Stderr = &p.stderr
	}
	if c.Start == nil {
		c.Start = servers.Start
	}
	if c.Read == nil {
		c.Read = p.pass
	}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, w, err := os.Pipe() // not StdoutPipe: Wait would close it before all was read
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	p.in, p.cmd.Stdout = in, w
	err = c.Start(p.cmd)
	_ = w.Close()
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	go p.attend(out, c.Read)
	return p, nil
}

// attend reads what the child writes, until it ends.
func (p *Child) attend(out io.ReadCloser, read func(io.Reader) error) {
	err := read(out)
	_ = out.Close()
	p.failed = errors.Join(err, p.cmd.Wait())
	close(p.over)
	close(p.lines)
}

// pass hands lines to Next.
func (p *Child) pass(out io.Reader) error {
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil { // half a line is of a child that was killed
			return nil
		}
		select {
		case p.lines <- line:
		case <-p.quit:
		}
	}
}

// Lines is a Read that calls take with each line.
func Lines(take func(line string)) func(io.Reader) error {
	return func(out io.Reader) error {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			take(lines.Text())
		}
		return lines.Err()
	}
}

// Send writes a line of JSON.
func (p *Child) Send(what any) error {
	line, err := json.Marshal(what)
	if err == nil {
		_, err = p.in.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return nil
}

// Next reads one line of JSON. Zero waits for it without end.
func (p *Child) Next(into any, most time.Duration) error {
	var late <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case line, ok := <-p.lines:
		if !ok {
			return fmt.Errorf("%s ended: %w", p.Name, p.Err())
		}
		if err := json.Unmarshal(line, into); err != nil {
			return fmt.Errorf("%s wrote %q: %w", p.Name, line, err)
		}
		return nil
	case <-late:
		return fmt.Errorf("%s did not answer within %v", p.Name, most)
	}
}

// Ask sends a line and reads the answer.
func (p *Child) Ask(what, into any, most time.Duration) error {
	if err := p.Send(what); err != nil {
		return err
	}
	return p.Next(into, most)
}

// Over is closed when the child has ended and all it wrote was read.
func (p *Child) Over() <-chan struct{} { return p.over }

// Err waits until the child has ended and returns how, with what it wrote to standard error if that was kept. It is
// never nil.
func (p *Child) Err() error {
	<-p.over
	err := p.failed
	if err == nil {
		err = errors.New("by itself")
	}
	return fmt.Errorf("%w %s", err, bytes.TrimSpace(p.stderr.Bytes()))
}

// Pid is the number of the process.
func (p *Child) Pid() int { return p.cmd.Process.Pid }

// Signal sends a signal; one that comes too late does nothing.
func (p *Child) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Kill ends the child as a crash does, and waits until all it wrote was read.
func (p *Child) Kill() {
	p.Signal(syscall.SIGKILL)
	p.drop()
	<-p.over
}

// CloseInput makes the child end by itself.
func (p *Child) CloseInput() { _ = p.in.Close() }

// Finish lets the child end by itself, kills it if it takes too long, and returns how it ended badly. Lines that nobody read are dropped.
func (p *Child) Finish(patience time.Duration) error {
	p.CloseInput()
	p.drop()
	late := time.AfterFunc(patience, func() { p.Signal(syscall.SIGKILL) })
	defer late.Stop()
	<-p.over
	return p.failed
}

// drop lets the reader go on although nobody takes what it reads.
func (p *Child) drop() { p.stop.Do(func() { close(p.quit) }) }
