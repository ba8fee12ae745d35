// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Unfit is the error of a server that cannot be harmed as asked; it says why.
type Unfit string

func (u Unfit) Error() string { return string(u) }

// Clock is the wall clock of a server under libfaketime. What counts from the
// start of the machine is left as it is.
type Clock struct {
	lib, file string
	mu        sync.Mutex
	ahead     time.Duration
}

// newClock makes a clock that is right.
func newClock() (*Clock, error) {
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	if len(found) == 0 {
		return nil, Unfit("libfaketime is not installed; on Debian: apt-get install libfaketime")
	}
	f, err := os.CreateTemp("", "torture-clock")
	if err != nil {
		return nil, err
	}
	c := &Clock{lib: found[0], file: f.Name()}
	return c, firstError(f.Chmod(0o644), f.Close(), c.Move(0))
}

// Move moves the clock.
func (c *Clock) Move(by time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += by
	return os.WriteFile(c.file, fmt.Appendf(nil, "%+.3f", c.ahead.Seconds()), 0o644)
}

// env is the environment of a server with that clock; nil for none.
func (c *Clock) env() []string {
	if c == nil {
		return nil
	}
	return append(os.Environ(), "LD_PRELOAD="+c.lib, "FAKETIME_TIMESTAMP_FILE="+c.file, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1")
}

func (c *Clock) remove() {
	if c != nil {
		_ = os.Remove(c.file)
	}
}

// Clocked is a server whose clock can be set; nil if it cannot.
type Clocked interface{ Clock() *Clock }

// Clock implements Clocked.
func (p *Process) Clock() *Clock { return p.clock }

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
