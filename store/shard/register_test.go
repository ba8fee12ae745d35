// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"testing"

	"github.com/fencelock/fencelock/store/memstore"
)

// TestLastSessionThatEndsRefusesNobody: a marker that is kept just when the last session has ended is not sent with a TTL of 0, which
// the member refuses: all later attempts would be refused, too.
func TestLastSessionThatEndsRefusesNobody(t *testing.T) {
	r := newRegister([]Member{{Name: "a", Store: memstore.New(nil)}, {Name: "b", Store: memstore.New(nil)}}, 0)
	if err := r.keep(t.Context(), r.entries[0]); err == nil {
		t.Error("a marker without a session is kept")
	}
	if refused := r.refused.Load(); refused != nil {
		t.Errorf("later attempts are refused: %v", *refused)
	}
}
