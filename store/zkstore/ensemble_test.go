// SPDX-License-Identifier: Apache-2.0

package zkstore_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver/drivertest"
)

// TestConformanceOnAnEnsemble checks the store clauses about sessions, ownership, tokens,
// the queue, waiting and unknown outcomes on three servers, where a connection sees the past
// if it does not ask for the present, and the leader hears of sessions from others.
func TestConformanceOnAnEnsemble(t *testing.T) {
	cases := slices.DeleteFunc(drivertest.Cases(), func(c drivertest.Case) bool {
		return !strings.Contains("SOTQWX", c.Clause.ID[:1])
	})
	conform(t, start(t, 3), cases)
}
