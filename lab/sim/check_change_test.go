// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// The changes to a call, and what else happens to it.
func as(id string) func(*Event) { return func(e *Event) { e.Reentry = id } }
func withOthers(e *Event)       { e.All = true }

func (s *script) down(acq int, err error) *script {
	return s.add(Event{Kind: Downgrading, Client: client(acq), Acq: acq}).
		add(Event{Kind: Downgraded, Client: client(acq), Acq: acq, OK: err == nil, Err: err})
}

func (s *script) breaks(token driver.Token) *script {
	return s.add(Event{Kind: Broke, Name: "x", Token: token * driver.TokenStep})
}

func (s *script) limit(n int64) *script { return s.add(Event{Kind: Limited, Name: "x", Limit: n}) }

var errBroken = errors.Join(fencelock.ErrLost, fencelock.LossForceUnlock)

// overBy ends an acquisition that was lost.
func (s *script) overBy(acq int, err error) *script {
	return s.notified(acq, err).add(Event{Kind: Unlocking, Client: client(acq), Acq: acq}).
		add(Event{Kind: Unlocked, Client: client(acq), Acq: acq, Err: err})
}

func TestCheckDowngrade(t *testing.T) {
	refused := errors.New("refused")
	busyReader := func(s *script, until float64) *script { // #2 wants to read all the time
		return s.call(1).got(1, 5).call(2, reader).at(1).down(1, nil).at(until).got(2, 6).unlock(2).at(9).unlock(1)
	}
	judge(t, []judgement{
		{"a reader beside it", newScript().call(1).got(1, 5).call(2, reader).down(1, nil).got(2, 6).unlock(1).unlock(2), nil},
		{"a reader before it", newScript().call(1).got(1, 5).call(2, reader).got(2, 6).down(1, nil).unlock(1).unlock(2), []string{"overlap"}},
		{"a writer beside it", newScript().call(1).got(1, 5).call(2).down(1, nil).got(2, 6).unlock(1).unlock(2), []string{"overlap"}},
		{"fails for nothing", newScript().call(1).got(1, 5).down(1, refused).unlock(1), []string{"survive"}},
		{"fails in a restart", newScript().call(1).got(1, 5).store(Restarted, 0).down(1, refused).unlock(1), []string{"survive"}},
		{"gives up in a restart", newScript().call(1).got(1, 5).store(Restarted, 0).down(1, context.DeadlineExceeded).unlock(1), nil},
		{"lets a reader in", busyReader(newScript(), 1), nil},
		{"keeps a reader out", busyReader(newScript(), 2), []string{"wakeup"}},
		{"reads what it wrote", newScript().call(1).got(1, 5).access(Wrote, 1, 5, 0, true).down(1, nil).
			access(Read, 1, 5, 1, true).unlock(1), nil},
		{"another client wrote", newScript().call(1).got(1, 5).access(Wrote, 1, 5, 0, true).down(1, nil).
			access(Read, 1, 5, 2, true).unlock(1), []string{"fence"}},
	})
}

func TestCheckBreak(t *testing.T) {
	both := func(s *script) *script { return s.call(1).call(2).got(1, 5).breaks(5).got(2, 7) }
	judge(t, []judgement{
		{"the next beside a broken one", both(newScript()).at(1).overBy(1, errBroken).unlock(2), nil},
		{"the next beside another", newScript().call(1).call(2).got(1, 5).breaks(4).got(2, 7).unlock(1).unlock(2), []string{"overlap"}},
		{"the next before it was broken", newScript().call(1).call(2).got(1, 5).got(2, 7).breaks(5).unlock(1).unlock(2), []string{"overlap"}},
		{"two more beside a broken one", both(newScript()).call(3).got(3, 8).overBy(1, errBroken).unlock(2).unlock(3), []string{"overlap"}},
		{"the same token again", newScript().call(1).call(2).got(1, 5).breaks(5).got(2, 5).overBy(1, errBroken).unlock(2), []string{"tokens"}},
		{"a token below the broken one's", newScript().call(1).got(1, 5).breaks(5).call(2).got(2, 4).overBy(1, errBroken).unlock(2),
			[]string{"tokens"}},
		{"broken without an operator", newScript().call(1).got(1, 5).at(1).overBy(1, errBroken), []string{"survive"}},
		{"another is broken", newScript().call(1).got(1, 5).breaks(4).at(1).overBy(1, errBroken), []string{"survive"}},
		{"a broken one is refused", both(newScript()).access(Wrote, 1, 5, 0, false).overBy(1, errBroken).unlock(2), nil},
		{"the next is refused", both(newScript()).access(Wrote, 2, 7, 0, false).overBy(1, errBroken).unlock(2), []string{"fence"}},
		{"a broken one is let in after the next", both(newScript()).access(Wrote, 2, 7, 0, true).access(Wrote, 1, 5, 1, true).
			overBy(1, errBroken).unlock(2), []string{"fence"}},
	})
}

// attemptedLate has a claim that was attempted after its call, and after the limit was
// lowered to 1.
func attemptedLate() *script {
	s := newScript().call(1, permits(1, 2)).call(2, permits(1, 2)).got(1, 5).limit(1).got(2, 6).unlock(1).unlock(2)
	s.h.Claims = []Claim{{Name: "x", Before: 1, After: 2, Position: 1, Token: 5 * driver.TokenStep},
		{Client: 1, Name: "x", Before: 3, After: 4, Position: 4, Token: 6 * driver.TokenStep}}
	return s
}

func TestCheckLimit(t *testing.T) {
	both := func(s *script, n int64) *script { // of weight 2, with their own limit of 3
		return s.call(1, permits(2, 3)).got(1, 5).limit(n).call(2, permits(2, 3)).got(2, 6).unlock(1).unlock(2)
	}
	wait := func(n int64, until float64) *script {
		return newScript().limit(n).call(1, permits(2, 3)).got(1, 5).call(2, permits(2, 3)).at(until).got(2, 6).unlock(1).unlock(2)
	}
	// #1 leaves its claim to #4 of the same client when it gives up. The limit is lowered
	// from 2 to 1 in between. attempted is the place where the claim was attempted.
	inherited := func(attempted int) *script {
		hurry := func(e *Event) { e.D = 0 }
		s := newScript().call(1, permits(1, 2), hurry).call(2, permits(1, 2)).got(2, 5).limit(1).call(4, permits(1, 2)).
			failed(1, context.DeadlineExceeded).got(4, 6).unlock(4).unlock(2)
		s.h.Claims = []Claim{{Client: 1, Name: "x", Before: 1, After: 2, Position: 2, Token: 5 * driver.TokenStep},
			{Name: "x", Before: 3, After: 4, Position: attempted, Token: 6 * driver.TokenStep}}
		return s
	}
	judge(t, []judgement{
		{"lowered after the claim was attempted", inherited(3), nil},
		{"lowered before the claim was attempted", inherited(4), []string{"overlap"}},
		{"lowered after the call and before the claim was attempted", attemptedLate(), []string{"overlap"}},
		{"raised", both(newScript(), 4), nil},
		{"not raised enough", both(newScript(), 3), []string{"overlap"}},
		{"raised and removed", both(newScript().limit(4), 0), []string{"overlap"}},
		{"raised too late", newScript().call(1, permits(2, 3)).got(1, 5).call(2, permits(2, 3)).got(2, 6).limit(4).unlock(1).unlock(2),
			[]string{"overlap"}},
		{"lowered, alone", newScript().limit(1).call(1, permits(2, 3)).got(1, 5).unlock(1), nil},
		{"lowered, not alone", newScript().limit(1).call(1, permits(2, 3)).call(2, permits(1, 3)).got(1, 5).got(2, 6).unlock(1).unlock(2),
			[]string{"overlap"}},
		{"lowered when both were there", newScript().call(1, permits(2, 3)).got(1, 5).call(2, permits(1, 3)).got(2, 6).limit(1).
			unlock(1).unlock(2), nil},
		{"room, and no waiter let in", wait(4, 1), []string{"wakeup"}},
		{"no room", newScript().limit(3).call(1, permits(2, 4)).got(1, 5).call(2, permits(2, 4)).at(1).unlock(1).got(2, 6).unlock(2), nil},
	})
}

func TestCheckReentry(t *testing.T) {
	two := func(first, second string, a, b driver.Token) *script {
		return newScript().call(1, as(first)).got(1, a).call(2, as(second)).got(2, b).unlock(1).unlock(2)
	}
	claims := func(re bool) *script {
		s := newScript()
		s.h.Claims = []Claim{{Name: "x", Before: 1, After: 2, Token: 6}, {Client: 1, Name: "x", Before: 3, After: 4, Token: 5, Reentry: re}}
		return s
	}
	judge(t, []judgement{
		{"one id", two("me", "me", 5, 5), nil},
		{"two ids", two("me", "you", 5, 6), []string{"overlap"}},
		{"two ids with one token", two("me", "you", 5, 5), []string{"tokens", "overlap"}},
		{"no id", two("", "", 5, 6), []string{"overlap"}},
		{"one id with a lower token", two("me", "me", 5, 4), []string{"tokens"}},
		{"one id with a lower token, of an older memory", newScript().call(1).got(1, 5).unlock(1).store(Restored, 0).
			call(2, as("me")).got(2, 4).unlock(2), nil},
		{"one id with a lower token, of an older memory with grace", newScript().having(grace).call(1).got(1, 5).unlock(1).
			store(Restored, 0).at(9).call(2, as("me")).got(2, 4).unlock(2), []string{"tokens"}},
		{"past the line", claims(true), nil},
		{"past the line without an id", claims(false), []string{"fifo"}},
	})
}

func TestCheckAll(t *testing.T) {
	// #2 wants x and something else, #3 only x; #1 has it for a second.
	later := func(change ...func(*Event)) *script {
		return newScript().call(1).got(1, 5).call(2, change...).at(1).unlock(1).at(3).got(2, 6).unlock(2)
	}
	judge(t, []judgement{
		{"waits for another name", later(withOthers), nil},
		{"waits for this name", later(), []string{"wakeup"}},
		{"in the way before it returns", newScript().call(2, withOthers).call(3).at(3).got(2, 6).unlock(2).got(3, 7).unlock(3), nil},
	})
}
