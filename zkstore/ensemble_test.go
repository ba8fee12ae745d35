// SPDX-License-Identifier: Apache-2.0

package zkstore_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/drivertest"
)

// TestConformanceOnAnEnsemble checks the store clauses about ownership, tokens, the line,
// waiting and unknown outcomes on three servers, where a connection sees the past if it
// does not ask for the present.
func TestConformanceOnAnEnsemble(t *testing.T) {
	cases := slices.DeleteFunc(drivertest.Cases(), func(c drivertest.Case) bool {
		return !strings.Contains("OTQWX", c.Clause.ID[:1])
	})
	conform(t, start(t, 3), cases, 16)
}
