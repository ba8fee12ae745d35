// SPDX-License-Identifier: Apache-2.0

//go:build unix

package warden

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// killAgain is how often killing is repeated until nothing is left: a process
	// can be born between looking and killing.
	killAgain = 2 * time.Millisecond
	// lookAgain is how often it is looked whether the group is empty, after the
	// command has ended.
	lookAgain = 10 * time.Millisecond
	// suspendTick is how often the clock is looked at while the command runs:
	// timers stand still while the machine is suspended, the clock does not.
	suspendTick = 250 * time.Millisecond
)

// warden is the state of a warden process.
type warden struct {
	pid     int // of the command and its group
	reports *os.File
	wake    chan struct{} // there is something to look at

	mu         sync.Mutex
	until      Instant
	foreground bool
	killing    bool
	all        bool // the end of the command is the end of everything
	exited     bool // the command itself
	gone       bool // the group was seen empty: its number may be another's now
	childless  bool // no children, and so no descendants where orphans are adopted
}

// Main is the warden's process. args are those after Arg. It returns the exit
// code, which nobody but the holder sees.
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
	w := &warden{reports: os.NewFile(uintptr(out), "reports"), wake: make(chan struct{}, 1), until: Instant(until)}
	withstandSignals()
	adoptOrphans()
	argv := args[4:]
	path, err := exec.LookPath(argv[0])
	if err == nil {
		w.pid, err = start(path, argv)
	}
	if err != nil {
		_ = send(w.reports, report{NotFound: notFound(err), Failed: err.Error()})
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

// withstandSignals keeps the warden alive when a whole process tree is told to
// end: the holder tells it what to do. Ignoring the signals would make the
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
// those that can be caught and that somebody sends to a program.
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
func (w *warden) obey(orders *os.File) {
	receive(orders, func(o order) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if o.Until != 0 {
			w.until = o.Until
		}
		w.foreground = w.foreground || o.Foreground
		w.killing = w.killing || o.Kill
		w.all = w.all || o.All
		if o.Signal != 0 {
			w.signal(syscall.Signal(o.Signal))
		}
		if o.Kill {
			w.signal(syscall.SIGKILL) // now; watch sees to the rest
		}
		w.look()
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.killing = true
	w.signal(syscall.SIGKILL)
	w.look()
}

// look makes watch look now.
func (w *warden) look() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// signal sends to the group and says whether there is one. The number of an empty
// group can go to somebody else, so it is not used once it was seen empty. Wants
// w.mu.
func (w *warden) signal(sig syscall.Signal) bool {
	if !w.gone && unix.Kill(-w.pid, sig) == unix.ESRCH {
		w.gone = w.exited // before that it is only on its way
	}
	return !w.gone
}

// reap collects the command and, where orphans are adopted, all it leaves.
func (w *warden) reap() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil: // no children
			w.mu.Lock()
			w.childless = true
			w.look()
			w.mu.Unlock()
			return
		case ws.Stopped() && pid == w.pid:
			w.stopped(ws.StopSignal())
		case pid == w.pid:
			exit := Exit{Code: ws.ExitStatus()}
			if ws.Signaled() {
				exit = Exit{Signal: int(ws.Signal())}
			}
			_ = send(w.reports, report{Exited: &exit})
			w.mu.Lock()
			w.exited = true // after the report: the last one is Empty
			w.look()
			w.mu.Unlock()
		}
	}
}

// stopped wakes a command that the terminal stopped: whoever pressed ctrl-Z has
// no shell to continue it with, and the lock is held all the while.
func (w *warden) stopped(sig syscall.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.foreground && (sig == syscall.SIGTSTP || sig == syscall.SIGTTIN || sig == syscall.SIGTTOU) {
		w.signal(syscall.SIGCONT)
	}
}

// watch kills when it is time to, and returns when nothing is left that the
// warden is responsible for: the group after the command has ended by itself,
// everything if it is to be killed.
func (w *warden) watch() {
	for {
		wait, overdue, done := w.step()
		if overdue {
			_ = send(w.reports, report{Overdue: true})
		}
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
func (w *warden) step() (wait time.Duration, overdue, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.until.Sub(Now())
	overdue = left <= 0 && !w.killing
	w.killing = w.killing || overdue || w.all && w.exited
	if !w.killing {
		if !w.exited {
			return min(suspendTick, left), false, false
		}
		return min(lookAgain, left), false, !w.signal(0)
	}
	lives := w.signal(syscall.SIGKILL)
	if !w.childless {
		killDescendants(nil)
	}
	// Where orphans are adopted, no children is no descendants: the kernel says so,
	// while a look at /proc may miss one.
	return killAgain, overdue, w.exited && !lives && (w.childless || !adopts)
}
