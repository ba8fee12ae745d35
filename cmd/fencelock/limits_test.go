// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"context"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
)

// bounded is a program that is killed after patience: one that hangs must fail its test, and not use up the time of
// all of them.
func bounded(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = time.Second // a child of it may keep its output open
	return cmd
}

// web gets answers of servers of the tests.
var web = &http.Client{Timeout: patience}

// lockSoon waits for a lock that must become free.
func lockSoon(t testing.TB, c *fencelock.Client, name string) *fencelock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := c.Mutex(name).Lock(ctx)
	must.OK(t, err)
	return l
}

// hung shows where a program that does not end is: the states of its processes, and the stacks of its goroutines in
// what it has written. It does not go on after that.
func (p *process) hung() string {
	states := processesBelow(p.t, p.cmd.Process.Pid)
	_ = p.cmd.Process.Signal(syscall.SIGABRT)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
	}
	return states + "stdout: " + p.out.String() + "\nstderr: " + p.err.String()
}

// processesBelow lists a process and its descendants as ps does.
func processesBelow(t testing.TB, pid int) string {
	list, err := bounded(t, "ps", "-e", "-o", "pid,ppid,pgid,tpgid,stat,args").Output()
	if err != nil {
		return "ps: " + err.Error() + "\n"
	}
	below, text := map[int]bool{pid: true}, strings.Builder{}
	for more := true; more; { // a child may be listed before its parent
		more = false
		for line := range bytes.Lines(list) {
			words := bytes.Fields(line)
			if len(words) < 2 {
				continue
			}
			child, _ := strconv.Atoi(string(words[0]))
			parent, _ := strconv.Atoi(string(words[1]))
			if below[parent] && !below[child] {
				below[child], more = true, true
			}
		}
	}
	for line := range bytes.Lines(list) {
		if words := bytes.Fields(line); len(words) > 0 {
			if n, err := strconv.Atoi(string(words[0])); err != nil || below[n] { // and the heading
				text.Write(line)
			}
		}
	}
	return text.String()
}
