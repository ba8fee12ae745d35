// SPDX-License-Identifier: Apache-2.0

//go:build unix

package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNotFound, ErrNotExecutable and ErrTooLate say why a command was not started.
var (
	ErrNotFound      = errors.New("command not found")
	ErrNotExecutable = errors.New("command cannot be executed")
	ErrTooLate       = errors.New("its time was over before it was started")
)

// Child is a command under a supervisor, as its holder sees it.
type Child struct {
	// PID is the process id of the command, and the id of its process group.
	PID int

	orders     *os.File
	supervisor *os.Process
	started    chan report
	exited     chan Exit
	left       chan struct{}
	empty      chan struct{}
	before     []int // children that this process had already

	changed   chan struct{} // stopped is another than before
	unreached chan Unreached

	mu      sync.Mutex
	overdue bool
	stopped syscall.Signal
}

// Unreached are processes of another user, which a signal did not reach.
type Unreached struct {
	Processes []Process
	// Killing reports whether the signal was KILL.
	Killing bool
}

// Start runs the command under a supervisor that kills everything at until unless
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
	c := newChild()
	c.orders, c.before = ordersW, children()
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
	case rep.TooLate:
		return nil, fmt.Errorf("%s: %w", argv[0], ErrTooLate)
	case rep.Failed != "":
		return nil, fmt.Errorf("%s: %w: %s", argv[0], ErrNotExecutable, rep.Failed)
	}
	return nil, fmt.Errorf("%s: the supervisor ended before it was started", argv[0])
}

func newChild() *Child {
	return &Child{started: make(chan report, 1), exited: make(chan Exit, 1), left: make(chan struct{}), empty: make(chan struct{}),
		changed: make(chan struct{}, 1), unreached: make(chan Unreached, 64)}
}

// launch starts the supervisor with its ends of the pipes.
func (c *Child) launch(argv, env []string, ordersR, reportsW *os.File, until Instant) error {
	self, err := executable()
	if err != nil {
		return err
	}
	// High numbers: the command may use 3 and 4 itself.
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
	c.supervisor, err = os.StartProcess(self, args, &os.ProcAttr{
		Env:   env,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		// A separate group: SIGKILL for the holder's whole group must leave a process
		// to kill the command's.
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	return err
}

// reapOrphans collects the dead that only process 1 of a container can collect:
// those that came in from outside, as by "docker exec". It may collect the supervisor,
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

// listen takes the supervisor's reports. If the supervisor dies it does its work.
func (c *Child) listen(reports *os.File) {
	defer close(c.empty)
	defer reports.Close()
	h := c.hear(reports)
	_, _ = c.supervisor.Wait()
	if !h.well {
		c.clear(h)
	}
	if !h.started { // after that: it may have died between the start and its report, and the caller releases the lock
		c.started <- report{}
	}
	if !h.exited {
		c.exited <- Exit{Signal: int(syscall.SIGKILL)}
	}
}

// heard is what a supervisor has reported when its pipe ends.
type heard struct {
	pid     int  // of the command; 0 if it was not started
	started bool // it was reported whether the command was started
	exited  bool // it was reported how the command ended
	left    bool // it was reported that processes are left
	well    bool // nothing is left to kill
}

// hear takes reports to their end. It never waits for a reader, and believes nothing that
// a supervisor does not send: a process id below 2 stands for more than one group.
func (c *Child) hear(reports io.Reader) (h heard) {
	receive(reports, func(r report) {
		switch {
		case h.started && h.pid == 0: // the last word
		case r.Started > 1 || r.Started == 0 && (r.NotFound || r.Failed != ""):
			if !h.started {
				h.started, h.pid, h.well = true, r.Started, r.Started == 0
				c.started <- r
			}
		case r.Exited != nil:
			if h.pid != 0 && !h.exited {
				h.exited = true
				c.exited <- *r.Exited
			}
		case r.Left:
			if h.exited && !h.left {
				h.left = true
				close(c.left)
			}
		case r.Overdue:
			c.mu.Lock()
			c.overdue = true
			c.mu.Unlock()
		case r.Empty:
			h.well = h.exited
		case r.Stopped != 0:
			c.setStopped(syscall.Signal(r.Stopped))
		case len(r.Unreached) > 0:
			c.missed(Unreached{r.Unreached, r.Killing})
		}
	})
	return h
}

// clear kills what a dead supervisor left. After a supervisor that ended well there is
// nothing to kill: what has left the group on purpose may stay.
func (c *Child) clear(h heard) {
	// After the end of the command its number may be another's. Where orphans are adopted
	// its group is among the descendants.
	if h.pid > 0 && !(h.exited && adopts) {
		_ = unix.Kill(-h.pid, unix.SIGKILL)
	}
	// A scan that finds nothing is not the end: a process can change its parent during
	// the scan. That there are no children is the end, and only the kernel knows.
	reported := map[int]bool{}
	for idle := 0; idle < idleScans; idle++ {
		wait := killAgain
		killed, others := killDescendants(c.before)
		switch {
		case killed:
			idle = 0
		case len(others) > 0:
			idle, wait = 0, recheckEvery // nothing but its own end ends them
		}
		others = slices.DeleteFunc(others, func(p Process) bool { return reported[p.PID] })
		for _, p := range others {
			reported[p.PID] = true
		}
		c.missed(Unreached{others, true})
		if !reapAll() {
			return
		}
		pause(wait)
	}
}

// missed hands processes that a signal did not reach to the holder.
func (c *Child) missed(u Unreached) {
	if len(u.Processes) == 0 {
		return
	}
	select {
	case c.unreached <- u:
	default: // the holder has enough to report
	}
}

// idleScans is after how many scans that find nothing to kill a holder believes them
// although it has children: those it had before, or it cannot see them.
const idleScans = 100

// send sends an order. A supervisor that stands still reads none, and its pipe fills up in
// the end: the holder must not stand still with it. An order that is not read does
// no harm: without a new Until everything ends earlier, and Kill has its own way out.
func (c *Child) send(o order) { c.sendBy(o, time.Now().Add(sendWithin)) }

// sendBy waits for room until by. If there is room, the order is written even after by:
// a busy machine can hold up this process for that long, and a signal is sent only once.
func (c *Child) sendBy(o order, by time.Time) {
	if !errors.Is(send(roomy{c.orders}, o), unix.EAGAIN) {
		return
	}
	_ = c.orders.SetWriteDeadline(by)
	_ = send(c.orders, o)
}

// roomy writes to a pipe without waiting for room, and without regard to a deadline.
type roomy struct{ pipe *os.File }

func (r roomy) Write(p []byte) (n int, err error) {
	raw, err := r.pipe.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(fd uintptr) {
		for n, err = unix.Write(int(fd), p); errors.Is(err, unix.EINTR); n, err = unix.Write(int(fd), p) {
		}
	})
	return n, errors.Join(err, failed)
}

// sendWithin is how long the holder waits for room in the pipe. There is room for
// hours of orders.
const sendWithin = 50 * time.Millisecond

// Until moves the instant at which the supervisor kills everything by itself.
func (c *Child) Until(at Instant) { c.send(order{Until: at}) }

// Signal sends a signal to the process group of the command. It does nothing if
// the group is gone.
func (c *Child) Signal(sig syscall.Signal) { c.send(order{Signal: int(sig)}) }

// Term asks the command to end because the lock is about to be lost: its group
// gets TERM, and when the command itself has ended everything else is killed.
func (c *Child) Term() {
	c.send(order{All: true, Signal: int(syscall.SIGTERM)})
	c.Signal(syscall.SIGCONT) // a stopped process does not see a TERM
}

// Kill kills everything at once. If nothing comes of it for so long, the supervisor stands
// still itself: then it is killed, and the holder does its work.
func (c *Child) Kill(patience time.Duration) {
	c.send(order{Kill: true})
	go func() {
		select {
		case <-c.empty:
		case <-time.After(patience):
			_ = c.supervisor.Kill()
		}
	}()
}

// Foreground informs the supervisor that the command has the terminal, and continues the
// command.
func (c *Child) Foreground() { c.send(order{Foreground: true}) }

// Exited reports how the command itself ended. Children of it may still run.
func (c *Child) Exited() <-chan Exit { return c.exited }

// Left is closed when the command has ended for a while and processes of its group still run.
func (c *Child) Left() <-chan struct{} { return c.left }

// Empty is closed when nothing of the command is left and the supervisor has ended.
func (c *Child) Empty() <-chan struct{} { return c.empty }

// StopChanged is sent to when Stopped has changed.
func (c *Child) StopChanged() <-chan struct{} { return c.changed }

// Stopped returns the signal by which the terminal stopped the command, which stays
// stopped until it gets SIGCONT; 0 if it is not stopped.
func (c *Child) Stopped() syscall.Signal {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped
}

func (c *Child) setStopped(sig syscall.Signal) {
	if sig == syscall.SIGCONT {
		sig = 0
	}
	c.mu.Lock()
	c.stopped = sig
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default: // it is on its way
	}
}

// Unreached reports which processes a signal did not reach, each once, and again if KILL
// does not reach it either.
func (c *Child) Unreached() <-chan Unreached { return c.unreached }

// Overdue reports whether the supervisor killed because the holder had not moved Until.
func (c *Child) Overdue() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.overdue
}

// pause waits a moment; nothing can interrupt what it is used for.
func pause(d time.Duration) { <-time.After(d) }
