// SPDX-License-Identifier: Apache-2.0

package warden

import (
	"bytes"
	"os"
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

// killDescendants kills every descendant of this process that lives, and says
// whether there was one.
func killDescendants() bool {
	self := os.Getpid()
	// In a container that shows the /proc of its host the numbers are another's.
	if link, err := os.Readlink("/proc/self"); err != nil || link != strconv.Itoa(self) {
		return false
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	children := map[int][]int{}
	dead := map[int]bool{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		parent, zombie, ok := parentOf(pid)
		if ok {
			children[parent] = append(children[parent], pid)
			dead[pid] = zombie
		}
	}
	found := false
	for queue := children[self]; len(queue) > 0; queue = queue[1:] {
		pid := queue[0]
		queue = append(queue, children[pid]...)
		if !dead[pid] {
			found = true
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	return found
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

// reapAll collects the dead among our children.
func reapAll() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err != nil || pid <= 0 {
			return
		}
	}
}
