// SPDX-License-Identifier: Apache-2.0

package liststore

import "testing"

// TestScriptsOfRunsDiffer: the scripts for a run id have another SHA than those for
// another run id, and than the generic ones.
func TestScriptsOfRunsDiffer(t *testing.T) {
	for _, s := range frequent {
		if a, b := s.In("a"), s.In("b"); a.SHA == b.SHA || a.SHA == s.SHA {
			t.Errorf("%s: the SHA does not depend on the run id", s.Name)
		}
	}
}
