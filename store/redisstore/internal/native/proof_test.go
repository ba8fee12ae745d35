// SPDX-License-Identifier: Apache-2.0

package native

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestScriptsOfRunsDiffer: the scripts for a run id have another SHA than those for
// another run id, and than the generic ones.
func TestScriptsOfRunsDiffer(t *testing.T) {
	for _, s := range frequent {
		if a, b := s.In("a"), s.In("b"); a.SHA == b.SHA || a.SHA == s.SHA {
			t.Errorf("%s: the SHA does not depend on the run id", s.Name)
		}
	}
}

// TestSessionsShareTheProof: of many sessions that find at once that a server does not have their
// scripts, one loads them. After a failure the next session tries, and scripts that are missing
// again are loaded again.
func TestSessionsShareTheProof(t *testing.T) {
	var r run
	var proofs atomic.Int64
	all := func(prove func() error) (loaded int64) {
		loads, sum := r.loads.Load(), atomic.Int64{}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if r.load(loads, prove) {
					sum.Add(1)
				}
			})
		}
		wg.Wait()
		return sum.Load()
	}
	for i := int64(1); i <= 2; i++ {
		if n := all(func() error { proofs.Add(1); return nil }); n != 50 || proofs.Load() != i {
			t.Errorf("round %d: %d of 50 sessions have the scripts, by %d proofs", i, n, proofs.Load())
		}
	}
	if n := all(func() error { proofs.Add(1); return errors.New("no permission") }); n != 0 || proofs.Load() != 52 {
		t.Errorf("%d sessions have the scripts by %d proofs, 50 of which failed", n, proofs.Load()-2)
	}
}

// TestRunsThatNoSessionUsesAreDropped: a process does not grow with the restarts of its servers, and sessions of one
// run share its scripts.
func TestRunsThatNoSessionUsesAreDropped(t *testing.T) {
	t.Parallel()
	var r runs
	used := r.of("used")
	for i := range 50 {
		r.of(fmt.Sprint("ended ", i))
	}
	deadline := time.Now().Add(30 * time.Second)
	for i := 0; ; i++ {
		runtime.GC()
		r.of(fmt.Sprint("next ", i))
		if len(r.byID) <= 3 { // the one in use, the last, and one that was made after the collection
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d runs are kept, one is in use", len(r.byID))
		}
	}
	if r.of("used") != used {
		t.Error("the scripts of a run in use were made again")
	}
}
