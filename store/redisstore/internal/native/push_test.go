// SPDX-License-Identifier: Apache-2.0

package native

import (
	"strings"
	"testing"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// TestLeftOverPushesLoseNone: a push that arrives before its claim waits makes the claim return or
// poll, however many pushes arrived for claims that were withdrawn.
func TestLeftOverPushesLoseNone(t *testing.T) {
	p := &pushes{started: true}
	p.init(&session{tail: strings.Repeat("\x00", 14)})
	push := func(seq int64) { p.message(rediscmd.BytesOf(seq, 6) + rediscmd.BytesOf(1, 7)) }
	const mine = 1 << 20
	for at := range int64(3 * maxEarly) { // when the push for the claim arrives
		push(at)
		p.notePoll(mine+uint64(at), p.gaps.Load())
		push(mine + at)
		push(mine - 1 - at)
		if w := p.wait(mine + uint64(at)); len(w.granted)+len(w.poll) == 0 {
			t.Fatalf("after %d pushes that are left over the claim neither returns nor polls", at)
		}
	}
	if n := len(p.early); n > maxEarly {
		t.Errorf("%d pushes are kept", n)
	}
}
