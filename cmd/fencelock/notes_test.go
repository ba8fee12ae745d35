// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fencelock/fencelock/internal/must"
)

// leaving is a command that leaves a process in its group that ignores TERM, which run reports,
// and ends with 5.
func leaving(dir string) []string {
	return []string{"sh", "-c", `sh -c 'trap "" TERM; echo $$ >` + dir + `/pid; exec sleep 300' >/dev/null 2>&1 &
		while [ ! -s ` + dir + `/pid ]; do sleep 0.01; done; exit 5`}
}

// TestRunGoesOnWithoutAReaderOfStderr: in "run … 2>&1 | head -1" the reader ends first, and
// the command, its status and the release of the lock do not depend on it.
func TestRunGoesOnWithoutAReaderOfStderr(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	r, w, err := os.Pipe()
	must.OK(t, err)
	dir := t.TempDir()
	// A process that a parallel test is about to start has the reader, too, until it runs its program.
	syscall.ForkLock.RLock()
	r.Close()
	syscall.ForkLock.RUnlock()
	p := beginWith(t, s.url(), func(c *exec.Cmd) { c.Stderr = w },
		append([]string{"run", "a", "--stop-time", "100ms", "--status-file", dir + "/status", "--"}, leaving(dir)...)...)
	w.Close()
	p.want(5)
	if st := readStatus(t, dir+"/status"); !st.Leftover || st.Outcome != outcomeRan {
		t.Errorf("got %+v", st)
	}
	if st, err := s.client(t, nil).Inspect(t.Context(), "a"); err != nil || len(st.Holders) > 0 {
		t.Errorf("got %+v, %v, want a free lock", st, err)
	}
}

// fullPipe returns a pipe without room, whose writer waits until it is read. The caller closes w.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	must.OK(t, err)
	t.Cleanup(func() { _ = r.Close() })
	size, err := unix.FcntlInt(w.Fd(), unix.F_GETPIPE_SZ, 0)
	if err == nil {
		_, err = w.Write(make([]byte, size))
	}
	must.OK(t, err)
	return r, w
}

// TestRunGoesOnWithAFullStderr: a reader that does not read holds up neither the end of the
// command nor the renewal of its deadline.
func TestRunGoesOnWithAFullStderr(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	_, w := fullPipe(t)
	dir := t.TempDir()
	p := beginWith(t, s.url(), func(c *exec.Cmd) { c.Stderr = w },
		append([]string{"run", "a", "--stop-time", "100ms", "--status-file", dir + "/status", "--"}, leaving(dir)...)...)
	w.Close()
	p.want(5)
	if st := readStatus(t, dir+"/status"); !st.Leftover || st.Outcome != outcomeRan {
		t.Errorf("got %+v", st)
	}
}
