// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// patience is how long a server may take to start or to stop, and a set of servers for
// anything: far more than they need, because test machines are slow and shared.
const patience = 60 * time.Second

// Await polls until ok, and returns an error that names what it waited for if that takes
// too long.
func Await(what string, ok func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			return fmt.Errorf("waited %v unsuccessfully: %s", patience, what)
		}
	}
	return nil
}

// Test starts a server, or several, that end with a test. It skips the test if the
// programs are not installed.
func Test[S interface{ Stop() }](t testing.TB, start func() (S, error)) S {
	t.Helper()
	s, err := start()
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}
