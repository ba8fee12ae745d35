// SPDX-License-Identifier: Apache-2.0

//go:build unix

package supervisor

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// killAgain is how often killing is repeated until nothing is left: a process
	// can be born between scanning and killing.
	killAgain = 2 * time.Millisecond
	// recheckEvery is how often the group is checked for being empty, after the
	// command has ended.
	recheckEvery = 10 * time.Millisecond
	// leftAfter is how long after the command its group may take to be empty before that
	// is reported. The supervisor measures it, because only a check of the group after that
	// time shows that something is left: a busy machine can delay the report that nothing is.
	leftAfter = 50 * time.Millisecond
	// suspendTick is how often the clock is read while the command runs:
	// timers stand still while the machine is suspended, the clock does not.
	suspendTick = 250 * time.Millisecond
)

// supervisor is the state of a supervisor process.
type supervisor struct {
	pid     int // of the command and its group
	reports io.Writer
	wake    chan struct{} // there is something to check

	mu         sync.Mutex
	until      Instant
	foreground bool
	killing    bool
	all        bool // the end of the command is the end of everything
	exited     bool // the command itself
	exitedAt   Instant
	left       bool // it was reported that the group is not empty
	gone       bool // the group was seen empty: its number may be another's now
	childless  bool // no children, and so no descendants where orphans are adopted

	unreached map[int]bool // processes of another user that were reported; true if KILL did not reach them
}

// Main is the supervisor's process. args are those after Arg. It returns the exit
// code, which only the holder sees.
func Main(args []string) int {
	// The command is bound to the life of the thread that started it.
	runtime.LockOSThread()
	if len(args) < 5 || args[3] != "--" {
		return 64
	}
	in, err1 := strconv.Atoi(args[0])
	out, err2 := strconv.Atoi(args[1])
	until, err3 := strconv.ParseInt(args[2], 10, 64)
	if errors.Join(err1, err2, err3) != nil {
		return 64
	}
	unix.CloseOnExec(in)
	unix.CloseOnExec(out)
	orders := os.NewFile(uintptr(in), "orders")
	w := &supervisor{reports: os.NewFile(uintptr(out), "reports"), wake: make(chan struct{}, 1), until: Instant(until)}
	withstandSignals()
	adoptOrphans()
	argv := args[4:]
	path, err := exec.LookPath(argv[0])
	switch {
	case err != nil:
	case w.until.Sub(Now()) <= 0: // the machine stood still on the way here
		err = ErrTooLate
	default:
		w.pid, err = start(path, argv)
	}
	if err != nil {
		_ = send(w.reports, report{NotFound: notFound(err), TooLate: errors.Is(err, ErrTooLate), Failed: err.Error()})
		return 0
	}
	_ = send(w.reports, report{Started: w.pid})
	go w.obey(orders)
	go w.reap()
	w.watch()
	_ = send(w.reports, report{Empty: true})
	return 0
}

func notFound(err error) bool {
	return errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist)
}

// withstandSignals keeps the supervisor alive when a whole process tree gets a signal to
// end: the holder sends it orders. Ignoring the signals would make the
// command ignore them, too; handlers are not inherited.
func withstandSignals() {
	caught := make(chan os.Signal, 1)
	for _, sig := range Forwarded {
		if !signal.Ignored(sig) {
			signal.Notify(caught, sig)
		}
	}
	go func() {
		for range caught {
		}
	}()
}

// Forwarded are the signals that the holder passes on to the command's group:
// those that can be caught and that users send to a program.
var Forwarded = []syscall.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH,
}

func start(path string, argv []string) (int, error) {
	p, err := os.StartProcess(path, argv, &os.ProcAttr{
		Env:   os.Environ(),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   bound(&syscall.SysProcAttr{Setpgid: true}),
	})
	if err != nil {
		return 0, err
	}
	return p.Pid, nil
}

// obey carries out what the holder says until the holder is gone.
func (w *supervisor) obey(orders io.Reader) {
	receive(orders, func(o order) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if o.Until != 0 {
			w.until = o.Until
		}
		w.foreground = w.foreground || o.Foreground
		if o.Foreground {
			// It may have been stopped for reading too early, or by a ctrl-Z that came before this order.
			w.resumeLocked()
		}
		w.killing = w.killing || o.Kill
		w.all = w.all || o.All
		if o.Signal != 0 {
			w.signalLocked(syscall.Signal(o.Signal))
			w.missedLocked(syscall.Signal(o.Signal))
		}
		if o.Kill {
			w.signalLocked(syscall.SIGKILL) // now; watch sees to the rest
		}
		w.recheck()
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.killing = true
	w.signalLocked(syscall.SIGKILL)
	w.recheck()
}

// recheck makes watch check now.
func (w *supervisor) recheck() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// signalLocked sends to the group and reports whether there is one. The number of an empty
// group can go to another, so it is not used once it was seen empty. w.mu must be held.
func (w *supervisor) signalLocked(sig syscall.Signal) bool {
	if w.gone {
		return false
	}
	switch unix.Kill(-w.pid, sig) {
	case unix.ESRCH:
		w.gone = w.exited // before that it is only on its way
	case unix.EPERM: // all of the group; of a mixed one missedLocked knows
		if sig == syscall.SIGKILL && !adopts {
			w.reportLocked([]Process{{PID: w.pid, UID: -1}}, true)
		}
	}
	return !w.gone
}

// missedLocked reports the processes that a signal to end them did not reach: the kernel
// reports success if it reaches one of the group. w.mu must be held.
func (w *supervisor) missedLocked(sig syscall.Signal) {
	switch sig {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGKILL:
		w.reportLocked(unreachable(), sig == syscall.SIGKILL)
	}
}

// reportLocked reports each process of another user once, and again when KILL does not reach
// it. w.mu must be held.
func (w *supervisor) reportLocked(others []Process, killing bool) {
	var unknown []Process
	for _, p := range others {
		if killed, known := w.unreached[p.PID]; known && (killed || !killing) {
			continue
		}
		if w.unreached == nil {
			w.unreached = map[int]bool{}
		}
		w.unreached[p.PID] = killing
		unknown = append(unknown, p)
	}
	// Few at once: a report must fit into the pipe in one piece.
	for some := range slices.Chunk(unknown, 16) {
		_ = send(w.reports, report{Unreached: some, Killing: killing})
	}
}

// reap collects the command and, where orphans are adopted, all it leaves.
func (w *supervisor) reap() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WUNTRACED|syscall.WCONTINUED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil: // no children
			w.mu.Lock()
			w.childless = true
			w.recheck()
			w.mu.Unlock()
			return
		case ws.Stopped() && pid == w.pid:
			w.stopped(ws.StopSignal())
		case ws.Continued() && pid == w.pid:
			_ = send(w.reports, report{Stopped: int(syscall.SIGCONT)})
		case ws.Stopped() || ws.Continued():
		case pid == w.pid:
			exit := Exit{Code: ws.ExitStatus()}
			if ws.Signaled() {
				exit = Exit{Signal: int(ws.Signal())}
			}
			_ = send(w.reports, report{Exited: &exit})
			w.mu.Lock()
			w.exited, w.exitedAt = true, Now() // after the report: the last one is Empty
			w.recheck()
			w.mu.Unlock()
		}
	}
}

// stopped wakes a command that ctrl-Z stopped: there is no shell to continue it with,
// and the lock is held all the while. A command that wants the terminal waits for the
// holder, which can give it.
func (w *supervisor) stopped(sig syscall.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch sig {
	case syscall.SIGTSTP:
		if w.foreground {
			w.resumeLocked()
		}
	case syscall.SIGTTIN, syscall.SIGTTOU:
		_ = send(w.reports, report{Stopped: int(sig)})
	}
}

// resumeAgain is when a group that ctrl-Z stopped is continued once more. The last is for a
// program that handles ctrl-Z itself and stops later, on a machine that is busy.
var resumeAgain = []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second}

// resumeLocked continues the group, and again a little later: the terminal signals the
// processes of a group one after the other, so the command's stop may be seen here, and
// the group continued, before its child gets the stop. That child would stay stopped for
// good, with the command waiting for it and the lock held; a stop of a process that is
// not our child is not reported to us. w.mu must be held.
func (w *supervisor) resumeLocked() {
	w.signalLocked(syscall.SIGCONT)
	for _, d := range resumeAgain {
		time.AfterFunc(d, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.signalLocked(syscall.SIGCONT)
		})
	}
}

// watch kills when it is time to, and returns when nothing is left that the
// supervisor is responsible for: the group after the command has ended by itself,
// everything if it is to be killed.
func (w *supervisor) watch() {
	for {
		wait, done := w.step()
		if done {
			return
		}
		select {
		case <-w.wake:
		case <-time.After(wait):
		}
	}
}

// step does one round of that.
func (w *supervisor) step() (wait time.Duration, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.until.Sub(Now())
	overdue := left <= 0 && !w.killing
	w.killing = w.killing || overdue || w.all && w.exited
	if !w.killing {
		if !w.exited {
			return min(suspendTick, left), false
		}
		began := Now()
		some := w.groupLeftLocked()
		if some && !w.left && began.Sub(w.exitedAt) >= leftAfter {
			w.left = true
			_ = send(w.reports, report{Left: true})
		}
		// A machine with very many processes takes long to scan.
		return min(max(recheckEvery, 4*Now().Sub(began)), left), !some
	}
	lives := w.signalLocked(syscall.SIGKILL)
	if overdue { // before what KILL does not reach: that outlives the lock
		_ = send(w.reports, report{Overdue: true})
	}
	wait = killAgain
	if !w.childless {
		killed, others := killDescendants(nil)
		w.reportLocked(others, true)
		if !killed && len(others) > 0 {
			wait = recheckEvery // nothing but its own end ends them
		}
	}
	// Where orphans are adopted, no children is no descendants: the kernel says so,
	// while a scan of /proc may miss one.
	return wait, w.exited && !lives && (w.childless || !adopts)
}

// groupLeftLocked reports whether something of the group runs after the command has ended. The
// scan of /proc may miss a process that is born at the same time, so what it calls dead
// is killed, and scanned again: no process is born in a group that was killed. w.mu must
// be held.
func (w *supervisor) groupLeftLocked() bool {
	if !w.signalLocked(0) || groupRuns(w.pid) || !w.signalLocked(syscall.SIGKILL) || groupRuns(w.pid) {
		return !w.gone
	}
	w.gone = true
	return false
}
