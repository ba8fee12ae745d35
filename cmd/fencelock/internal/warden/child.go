// SPDX-License-Identifier: Apache-2.0

//go:build unix

package warden

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNotFound and ErrNotExecutable say why a command could not be started.
var (
	ErrNotFound      = errors.New("command not found")
	ErrNotExecutable = errors.New("command cannot be executed")
)

// Child is a command under a warden, as its holder sees it.
type Child struct {
	// PID is the process id of the command, and the id of its process group.
	PID int

	orders  *os.File
	warden  *os.Process
	started chan report
	exited  chan Exit
	empty   chan struct{}
	before  []int // children that this process had already

	mu      sync.Mutex
	overdue bool
}

// Start runs the command under a warden that kills everything at until unless
// Until says otherwise. The command gets stdin, stdout, stderr and every other
// descriptor that this process was given.
func Start(argv, env []string, until Instant) (*Child, error) {
	adoptOrphans()
	if os.Getpid() == 1 {
		reapOrphans()
	}
	ordersR, ordersW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	reportsR, reportsW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, ordersR.Close(), ordersW.Close())
	}
	c := &Child{orders: ordersW, started: make(chan report, 1), exited: make(chan Exit, 1), empty: make(chan struct{}), before: children()}
	err = c.launch(argv, env, ordersR, reportsW, until)
	_, _ = ordersR.Close(), reportsW.Close()
	if err != nil {
		return nil, errors.Join(err, ordersW.Close(), reportsR.Close())
	}
	go c.listen(reportsR)
	rep := <-c.started
	switch {
	case rep.Started != 0:
		c.PID = rep.Started
		return c, nil
	case rep.NotFound:
		return nil, fmt.Errorf("%s: %w", argv[0], ErrNotFound)
	case rep.Failed != "":
		return nil, fmt.Errorf("%s: %w: %s", argv[0], ErrNotExecutable, rep.Failed)
	}
	return nil, fmt.Errorf("%s: the warden ended before it was started", argv[0])
}

// launch starts the warden with its ends of the pipes.
func (c *Child) launch(argv, env []string, ordersR, reportsW *os.File, until Instant) error {
	self, err := executable()
	if err != nil {
		return err
	}
	// High numbers: the command may use 3 and 4 for something of its own.
	in, err := inherited(ordersR)
	if err != nil {
		return err
	}
	defer unix.Close(in)
	out, err := inherited(reportsW)
	if err != nil {
		return err
	}
	defer unix.Close(out)
	args := append([]string{"fencelock", Arg, strconv.Itoa(in), strconv.Itoa(out), strconv.FormatInt(int64(until), 10), "--"}, argv...)
	c.warden, err = os.StartProcess(self, args, &os.ProcAttr{
		Env:   env,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		// A group of its own: whoever kills the holder's whole group with
		// SIGKILL must leave somebody to kill the command's.
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	return err
}

// reapOrphans collects the dead that only process 1 of a container can collect:
// those that came in from outside, as by "docker exec". It may collect the warden,
// too, whose end we learn from its pipe.
func reapOrphans() {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	go func() {
		for range died {
			reapAll()
		}
	}()
}

// inherited returns a copy of the file that a started process keeps open.
func inherited(f *os.File) (int, error) { return unix.FcntlInt(f.Fd(), unix.F_DUPFD, 100) }

// listen takes the warden's reports. If the warden dies it does its work.
func (c *Child) listen(reports *os.File) {
	defer close(c.empty)
	defer reports.Close()
	pid, exited, well := 0, false, false
	receive(reports, func(r report) {
		switch {
		case r.Started != 0 || r.NotFound || r.Failed != "":
			pid, well = r.Started, r.Started == 0
			c.started <- r
		case r.Exited != nil:
			exited = true
			c.exited <- *r.Exited
		case r.Overdue:
			c.mu.Lock()
			c.overdue = true
			c.mu.Unlock()
		case r.Empty:
			well = true
		}
	})
	_, _ = c.warden.Wait()
	if pid == 0 && !well {
		c.started <- report{}
	}
	if !well {
		c.clear(pid)
	}
	if !exited {
		c.exited <- Exit{Signal: int(syscall.SIGKILL)}
	}
}

// clear kills what a dead warden left. After a warden that ended well there is
// nothing to kill: what has left the group on purpose may stay.
func (c *Child) clear(pid int) {
	if pid > 0 {
		_ = unix.Kill(-pid, unix.SIGKILL)
	}
	// That a look finds nothing is not the end: a process can change its parent while
	// the look goes by. That there are no children is the end, and only the kernel knows.
	for vain := 0; vain < vainLooks; vain++ {
		if killDescendants(c.before) {
			vain = 0
		}
		if !reapAll() {
			return
		}
		pause(killAgain)
	}
}

// vainLooks is after how many looks that find nothing to kill a holder believes them
// although it has children: those it had before, or it cannot see them.
const vainLooks = 100

// Until moves the instant at which the warden kills everything by itself.
func (c *Child) Until(at Instant) { _ = send(c.orders, order{Until: at}) }

// Signal sends a signal to the process group of the command. It does nothing if
// the group is gone.
func (c *Child) Signal(sig syscall.Signal) { _ = send(c.orders, order{Signal: int(sig)}) }

// Term asks the command to end because the lock is about to be lost: its group
// gets TERM, and when the command itself has ended everything else is killed.
func (c *Child) Term() {
	_ = send(c.orders, order{All: true, Signal: int(syscall.SIGTERM)})
	c.Signal(syscall.SIGCONT) // a stopped process does not see a TERM
}

// Kill kills everything at once.
func (c *Child) Kill() { _ = send(c.orders, order{Kill: true}) }

// Foreground tells the warden that the command has the terminal.
func (c *Child) Foreground() { _ = send(c.orders, order{Foreground: true}) }

// Exited tells how the command itself ended. Children of it may still run.
func (c *Child) Exited() <-chan Exit { return c.exited }

// Empty is closed when nothing of the command is left and the warden has ended.
func (c *Child) Empty() <-chan struct{} { return c.empty }

// Overdue says whether the warden killed because nobody had moved Until.
func (c *Child) Overdue() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.overdue
}

// pause waits a moment; nothing can interrupt what it is used for.
func pause(d time.Duration) { <-time.After(d) }
