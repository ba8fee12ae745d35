// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fencelock/fencelock/lab/internal/rig"
)

// patience is how long the story waits for anything: far more than it takes.
const patience = time.Minute

// act is one run of the story.
type act struct {
	account int
	title   string
	guarded string // yes or no
	want    int    // the balance at the end
	moral   string
}

// stage is where the acts are played.
type stage struct {
	db              *sql.DB
	out             io.Writer
	redis, postgres string
	begun           time.Time
}

// print prints one line of the time line.
func (s *stage) print(who, format string, args ...any) {
	fmt.Fprintf(s.out, "%7.2f s  %-8s  %s\n", time.Since(s.begun).Seconds(), who, fmt.Sprintf(format, args...))
}

// play lets A read, stops it, lets B do its work, and lets A go on.
func (s *stage) play(ctx context.Context, a act) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	fmt.Fprintf(s.out, "\n%s: A adds %d and B adds %d to %d.\n\n", a.title, addsA, addsB, begins)
	if _, err := s.db.ExecContext(ctx, "INSERT INTO accounts VALUES ($1, $2)", a.account, begins); err != nil {
		return err
	}
	s.begun = time.Now()
	workerA, err := s.start(ctx, "A", addsA, a)
	if err != nil {
		return err
	}
	if err := workerA.until("has read"); err != nil {
		return err
	}
	if err := workerA.pause(); err != nil {
		return err
	}
	s.print("", "A is stopped (SIGSTOP) while it holds the lock")
	workerB, err := s.start(ctx, "B", addsB, a)
	if err != nil {
		return err
	}
	workerB.goOn()
	if err := workerB.end(); err != nil {
		return err
	}
	s.print("", "A goes on (SIGCONT); for A no time has passed")
	workerA.goOn()
	workerA.goOn() // for its second try, if it needs one
	workerA.Signal(syscall.SIGCONT)
	if err := workerA.end(); err != nil {
		return err
	}
	var balance int
	if err := s.db.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = $1", a.account).Scan(&balance); err != nil {
		return err
	}
	s.print("account", "%d, and should be %d", balance, complete)
	if balance != a.want {
		return fmt.Errorf("%s the account ends with %d, want %d", strings.ToLower(a.title), balance, a.want)
	}
	fmt.Fprintf(s.out, "\n%s\n", a.moral)
	return nil
}

// process is a worker that runs.
type process struct {
	*rig.Child
	s     *stage
	lines chan string
}

// start starts a worker as a separate process: this program again.
func (s *stage) start(ctx context.Context, name string, amount int, a act) (*process, error) {
	p := &process{s: s, lines: make(chan string)}
	var err error
	p.Child, err = rig.Start(ctx, rig.Command{
		Name: name, Args: []string{"worker", name, s.redis, s.postgres, strconv.Itoa(a.account), strconv.Itoa(amount), a.guarded}, Stderr: os.Stderr,
		Read: func(out io.Reader) error {
			defer close(p.lines)
			return rig.Lines(func(line string) { p.lines <- line })(out)
		},
	})
	return p, err
}

// until prints the worker's lines up to one with the prefix.
func (p *process) until(prefix string) error {
	for line := range p.lines {
		p.s.print(p.Name, "%s", line)
		if strings.HasPrefix(line, prefix) {
			return nil
		}
	}
	return fmt.Errorf("worker %s ended before it printed %q: %w", p.Name, prefix, p.Err())
}

// goOn ends the slow work. A worker that is stopped finds it out later.
func (p *process) goOn() { _ = p.Send("go on") }

// pause stops the process and returns when the kernel reports that it is stopped.
func (p *process) pause() error {
	p.Signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.Pid(), &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil || !status.Stopped():
			return fmt.Errorf("worker %s was not stopped: %v, %v", p.Name, status, err)
		default:
			return nil
		}
	}
}

// end prints the worker's lines until it ends.
func (p *process) end() error {
	for line := range p.lines {
		p.s.print(p.Name, "%s", line)
	}
	if err := p.Finish(patience); err != nil {
		return fmt.Errorf("worker %s: %w", p.Name, err)
	}
	return nil
}
