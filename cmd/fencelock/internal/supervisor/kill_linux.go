// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// executable is this program, even if its file has been replaced since it started.
func executable() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err != nil {
		return "", fmt.Errorf("no /proc, without which the command's processes cannot be ended: %w", err)
	}
	return self, nil
}

// Blind reports whether processes that leave the command's group cannot be found: /proc
// is that of another container, with other numbers.
func Blind() bool { return !ownProc() }

// bound makes the command die with the thread that starts it.
func bound(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}

// adoptOrphans makes this process the parent of descendants whose own parent
// died, so that none can hide from it.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// adopts: a process without children has no descendants either.
const adopts = true

// killDescendants kills every descendant of this process that lives, but for some
// children and what is below them, and reports whether one was killed, and which could
// not be killed because they belong to another user. It may miss one that is born or
// orphaned while it scans: it is for repeating.
func killDescendants(but []int) (killed bool, others []Process) {
	return signalDescendants(but, unix.SIGKILL)
}

// unreachable returns the descendants that belong to another user.
func unreachable() []Process {
	_, others := signalDescendants(nil, 0)
	return others
}

func signalDescendants(but []int, sig syscall.Signal) (reached bool, others []Process) {
	self := os.Getpid()
	if !ownProc() {
		return false, nil
	}
	below := childrenOf
	if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(self) + "/children"); err != nil {
		below = scan() // a kernel without that file
	}
	queue := slices.DeleteFunc(below(self), func(pid int) bool { return slices.Contains(but, pid) })
	for ; len(queue) > 0; queue = queue[1:] {
		pid := queue[0]
		queue = append(queue, below(pid)...) // before it dies: then they have another parent
		if st, ok := statOf(pid); ok && st.dead {
			continue
		}
		switch unix.Kill(pid, sig) {
		case nil:
			reached = true
		case unix.EPERM:
			others = append(others, processOf(pid))
		}
	}
	return reached, others
}

// processOf reads whose a process is, and what it is called. Where processes of other
// users are hidden, neither is known.
func processOf(pid int) Process {
	p := Process{PID: pid, UID: -1}
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	for line := range bytes.Lines(text) {
		key, value, _ := bytes.Cut(line, []byte(":"))
		switch fields := bytes.Fields(value); {
		case string(key) == "Name" && len(fields) > 0:
			p.Name = string(bytes.TrimSpace(value))
		case string(key) == "Uid" && len(fields) > 0:
			if uid, err := strconv.Atoi(string(fields[0])); err == nil { // the real one
				p.UID = uid
			}
		}
	}
	return p
}

// children are those of this process.
func children() []int { return childrenOf(os.Getpid()) }

// childrenOf reads the children of all threads of a process. It reads few
// files, however many processes the machine has: a machine in trouble has many.
func childrenOf(pid int) []int {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	threads, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var all []int
	for _, thread := range threads {
		text, err := os.ReadFile(dir + thread.Name() + "/children")
		if err != nil {
			continue
		}
		for field := range bytes.FieldsSeq(text) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// scan does the same by reading every process there is.
func scan() func(pid int) []int {
	below := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if st, ok := statOf(pid); ok {
				below[st.parent] = append(below[st.parent], pid)
			}
		}
	}
	return func(pid int) []int { return below[pid] }
}

// stat is what /proc shows of a process.
type stat struct {
	parent, group int
	dead          bool // a zombie: nothing of it runs
}

// statOf reads /proc/pid/stat: "pid (name) state ppid pgrp ...", where the name may
// hold anything, brackets too.
func statOf(pid int) (stat, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	end := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	if end < 0 || len(fields) < 3 {
		return stat{}, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	group, err2 := strconv.Atoi(string(fields[2]))
	return stat{parent, group, fields[0][0] == 'Z' || fields[0][0] == 'X'}, err1 == nil && err2 == nil
}

// groupRuns reports whether a process of the group runs, of a group that the kernel knows.
// The kernel counts zombies, which stay for as long as their parent does not collect
// them, and a parent that has left the group may live for days. True if that is unknown.
func groupRuns(group int) bool {
	if !ownProc() {
		return true
	}
	if _, ok := statOf(1); !ok {
		return true // processes of others are hidden here, a set-user-ID program too
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return true
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if st, ok := statOf(pid); ok && st.group == group && !st.dead {
				return true
			}
		}
	}
	return false
}

// ownProc reports whether /proc is ours. In a container that shows the /proc of its host
// the numbers are another's.
func ownProc() bool {
	link, err := os.Readlink("/proc/self")
	return err == nil && link == strconv.Itoa(os.Getpid())
}

// reapAll collects the dead among our children and reports whether some live.
func reapAll() bool {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return false // no children
		}
		if err == nil && pid == 0 {
			return true
		}
	}
}
