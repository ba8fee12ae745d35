// SPDX-License-Identifier: Apache-2.0

package zkstore_test

import (
	"testing"

	"github.com/fencelock/fencelock/drivertest"
)

// TestConformanceOnAnEnsemble checks the store clauses on three servers, where a
// connection sees the past if it does not ask for the present.
func TestConformanceOnAnEnsemble(t *testing.T) { conform(t, start(t, 3), drivertest.Cases(), 12) }
