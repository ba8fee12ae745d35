// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"testing"

	"github.com/fencelock/fencelock/driver"
)

// TestTombstoneComesBeforeTheCreation: a claim is tombstoned after its attempt has begun, and the process has read
// that. Its node must not be created: the check of the session's version would succeed.
func TestTombstoneComesBeforeTheCreation(t *testing.T) {
	ss := sessionOf(nativeLayout{})
	ss.record.Tombstoned = []uint64{7}
	a := &attempt{session: ss, claim: &driver.Claim{Seq: 7, Name: "x", Terms: &driver.Terms{}}}
	if _, _, refused, err := a.create(&call{ctx: t.Context()}); !refused || err != nil {
		t.Errorf("refused: %t, %v; want true", refused, err)
	}
}
