// SPDX-License-Identifier: Apache-2.0

package target

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// TestProcessTime: what this process spends is counted, and only that.
func TestProcessTime(t *testing.T) {
	before, err := processTime(os.Getpid())
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("this system does not report it")
	}
	must.OK(t, err)
	const busy = 20 * time.Millisecond
	ran := func() float64 {
		now, err := processTime(os.Getpid())
		must.OK(t, err)
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

// TestThreadsEndWhileTheirTimesAreRead: a server with a thread for each connection has a time
// while connections are closed.
func TestThreadsEndWhileTheirTimesAreRead(t *testing.T) {
	if _, err := familyTime(os.Getpid()); errors.Is(err, os.ErrNotExist) {
		t.Skip("this system does not report it")
	}
	stop := make(chan struct{})
	var churn sync.WaitGroup
	defer churn.Wait()
	defer close(stop)
	churn.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			var threads sync.WaitGroup
			for range 8 {
				threads.Go(runtime.LockOSThread) // never unlocked: the thread ends
			}
			threads.Wait()
		}
	})
	for range 300 {
		if _, err := familyTime(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
}
