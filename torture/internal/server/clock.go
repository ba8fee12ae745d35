// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// Clock is the wall clock of a server, which reads how far it is off from a file
// whenever it is asked. What counts from the start of the machine is left alone.
type Clock struct {
	dir  string
	lib  string   // to be loaded before all others
	vars []string // for the library
	tell func(off time.Duration) error

	mu  sync.Mutex
	off time.Duration
}

// fakeClock is a clock by libfaketime, for servers with the C library's malloc.
func fakeClock() (*Clock, error) {
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	if len(found) == 0 {
		return nil, fmt.Errorf("libfaketime is %w; on Debian: apt-get install libfaketime", ErrMissing)
	}
	dir, err := clockDir()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "offset")
	c := &Clock{dir: dir, lib: found[0], vars: []string{"FAKETIME_TIMESTAMP_FILE=" + file, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"},
		tell: func(off time.Duration) error {
			return os.WriteFile(file, fmt.Appendf(nil, "%+.3f", off.Seconds()), 0o644)
		}}
	return c, c.Move(0)
}

// ownSource is a library that answers one call, gettimeofday, which is all that
// Redis asks for the time of day. libfaketime answers clock_gettime too, which
// jemalloc calls before the library can know where the real one is.
const ownSource = `
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile long long *off;
__attribute__((constructor)) static void begin(void) {
	int fd = open(getenv("TORTURE_CLOCK"), O_RDONLY);
	off = mmap(0, sizeof *off, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
}
int gettimeofday(struct timeval *tv, void *tz) {
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	long long ns = ts.tv_sec * 1000000000LL + ts.tv_nsec + (off ? *off : 0);
	tv->tv_sec = ns / 1000000000LL;
	tv->tv_usec = ns % 1000000000LL / 1000;
	return 0;
}
`

// ownClock is a clock for Redis; it needs a C compiler.
func ownClock() (*Clock, error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return nil, fmt.Errorf("a C compiler, which it takes to set the clock of a Redis with jemalloc, is %w; on Debian: apt-get install gcc libc6-dev", ErrMissing)
	}
	dir, err := clockDir()
	if err != nil {
		return nil, err
	}
	file, source, lib := filepath.Join(dir, "offset"), filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	err = errors.Join(os.WriteFile(file, make([]byte, 8), 0o644), os.WriteFile(source, []byte(ownSource), 0o644))
	if err != nil {
		return nil, err
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-O1", "-o", lib, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the clock does not compile: %w\n%s", err, out)
	}
	return &Clock{dir: dir, lib: lib, vars: []string{"TORTURE_CLOCK=" + file}, tell: func(off time.Duration) error {
		f, err := os.OpenFile(file, os.O_WRONLY, 0) // never cut short: it is mapped
		if err != nil {
			return err
		}
		_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(off)), 0)
		return errors.Join(err, f.Close())
	}}, nil
}

// clockDir is a folder that servers of other users can read.
func clockDir() (string, error) {
	dir, err := os.MkdirTemp("", "torture-clock")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	return dir, err
}

// Move moves the clock.
func (c *Clock) Move(by time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += by
	return c.tell(c.off)
}

// env is the environment of a server with that clock; nil for none.
func (c *Clock) env() []string {
	if c == nil {
		return nil
	}
	return append(append(os.Environ(), "LD_PRELOAD="+c.lib), c.vars...)
}

func (c *Clock) remove() {
	if c != nil {
		_ = os.RemoveAll(c.dir)
	}
}

// Clocked is a server whose clock can be set, if it was started so.
type Clocked interface{ Clock() *Clock }

// Clock implements Clocked.
func (p *Process) Clock() *Clock { return p.clock }
