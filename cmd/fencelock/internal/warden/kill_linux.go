// SPDX-License-Identifier: Apache-2.0

package warden

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// executable is this program, also if its file was replaced meanwhile.
func executable() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err != nil {
		return os.Executable() // no /proc
	}
	return self, nil
}

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
// children and what is below them, and says whether there was one. It may miss one
// that is born or orphaned meanwhile: it is for repeating.
func killDescendants(but []int) bool {
	self := os.Getpid()
	// In a container that shows the /proc of its host the numbers are another's.
	if link, err := os.Readlink("/proc/self"); err != nil || link != strconv.Itoa(self) {
		return false
	}
	below := childrenOf
	if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(self) + "/children"); err != nil {
		below = scan() // a kernel without that file
	}
	found := false
	queue := slices.DeleteFunc(below(self), func(pid int) bool { return slices.Contains(but, pid) })
	for ; len(queue) > 0; queue = queue[1:] {
		pid := queue[0]
		queue = append(queue, below(pid)...) // before it dies: then they are somebody else's
		if _, dead, ok := parentOf(pid); ok && !dead {
			found = true
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	return found
}

// children are those of this process.
func children() []int { return childrenOf(os.Getpid()) }

// childrenOf reads the children of all threads of a process. It looks at few
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

// scan does the same by looking at every process there is.
func scan() func(pid int) []int {
	below := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if parent, _, ok := parentOf(pid); ok {
				below[parent] = append(below[parent], pid)
			}
		}
	}
	return func(pid int) []int { return below[pid] }
}

// parentOf reads /proc/pid/stat: "pid (name) state ppid ...", where the name may
// hold anything, brackets too.
func parentOf(pid int) (parent int, zombie, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false, false
	}
	end := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	if end < 0 || len(fields) < 2 {
		return 0, false, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, fields[0][0] == 'Z' || fields[0][0] == 'X', err == nil
}

// reapAll collects the dead among our children and says whether some live.
func reapAll() bool {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return false // there are none
		}
		if err == nil && pid == 0 {
			return true
		}
	}
}
