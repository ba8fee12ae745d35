// SPDX-License-Identifier: Apache-2.0

package target

import (
	"errors"
	"os"
	"testing"
	"time"
)

// TestProcessTime: what this process spends is counted, and only that.
func TestProcessTime(t *testing.T) {
	before, err := processTime(os.Getpid())
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("this system does not report it")
	}
	if err != nil {
		t.Fatal(err)
	}
	const busy = 20 * time.Millisecond
	ran := func() float64 {
		now, err := processTime(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return now - before
	}
	for deadline := time.Now().Add(10 * time.Second); ran() < busy.Seconds(); {
		if time.Now().After(deadline) {
			t.Fatalf("%v s are counted after ten seconds of work", ran())
		}
	}
	if _, err := processTime(1 << 30); err == nil {
		t.Error("a process that does not exist has a time")
	}
}
