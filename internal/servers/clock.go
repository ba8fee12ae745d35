// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	_ "embed"
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
	dir   string
	lib   string   // to be loaded before all others
	vars  []string // for the library
	write func(off time.Duration) error

	mu  sync.Mutex
	off time.Duration
}

// FakeClock is a clock by libfaketime, for servers with the C library's malloc.
func FakeClock() (*Clock, error) {
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
		write: func(off time.Duration) error {
			return os.WriteFile(file, fmt.Appendf(nil, "%+.3f", off.Seconds()), 0o644)
		}}
	return c, c.Move(0)
}

// clockSource is a library that answers what Redis calls for the time of day.
//
//go:embed testdata/clock.c
var clockSource []byte

// RedisClock is a clock for Redis and Valkey; it needs a C compiler. libfaketime hangs in
// servers with jemalloc.
func RedisClock() (*Clock, error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return nil, fmt.Errorf("a C compiler, which it takes to set the clock of a Redis with jemalloc, is %w; on Debian: apt-get install gcc libc6-dev", ErrMissing)
	}
	dir, err := clockDir()
	if err != nil {
		return nil, err
	}
	file, source, lib := filepath.Join(dir, "offset"), filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	err = errors.Join(os.WriteFile(file, make([]byte, 8), 0o644), os.WriteFile(source, clockSource, 0o644))
	if err != nil {
		return nil, err
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-O1", "-o", lib, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the clock does not compile: %w\n%s", err, out)
	}
	return &Clock{dir: dir, lib: lib, vars: []string{"CLOCK_AHEAD_FILE=" + file}, write: func(off time.Duration) error {
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
	dir, err := os.MkdirTemp("", "clock")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	return dir, err
}

// Set sets how far the clock is ahead of the machine's.
func (c *Clock) Set(ahead time.Duration) error {
	return c.change(func(time.Duration) time.Duration { return ahead })
}

// Move moves the clock.
func (c *Clock) Move(by time.Duration) error {
	return c.change(func(off time.Duration) time.Duration { return off + by })
}

func (c *Clock) change(to func(off time.Duration) time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = to(c.off)
	return c.write(c.off)
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
