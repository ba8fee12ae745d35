// SPDX-License-Identifier: Apache-2.0

package liststore

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
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
