// SPDX-License-Identifier: Apache-2.0

package native

import (
	"strings"
	"testing"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// TestPushBeforeTheWaitIsNotLost: a push that arrives before its claim waits makes the claim return, and pushes for claims that
// were withdrawn leave nothing behind.
func TestPushBeforeTheWaitIsNotLost(t *testing.T) {
	s := &session{tail: strings.Repeat("\x00", 14), claims: &claims{pushes: asked}}
	push := func(seq int64) { s.message(rediscmd.BytesOf(seq, 6) + rediscmd.BytesOf(1, 7)) }
	s.claims.begin(&claim{seq: 1})
	for withdrawn := range int64(5000) {
		push(withdrawn + 2)
	}
	push(1)
	if n := len(s.claims.all()); n != 1 {
		t.Errorf("%d claims are known, want one", n)
	}
	if w := s.wait(1); len(w.granted) != 1 {
		t.Error("the claim was granted before it waited, and does not return")
	}
}
