// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// Every checker is shown histories that are fine and histories it must complain
// about: a checker that cannot fail checks nothing.

func TestCheckTokens(t *testing.T) {
	judge(t, []judgement{
		{"one after the other", newScript().call(1).got(1, 5).unlock(1).call(2).got(2, 6).unlock(2), nil},
		{"asked together", newScript().call(1).call(2).got(1, 5).unlock(1).got(2, 6).unlock(2), nil},
		{"the same twice", newScript().call(1).call(2).got(1, 5).unlock(1).got(2, 5).unlock(2), []string{"tokens"}},
		{"falls", newScript().call(1).got(1, 6).unlock(1).call(2).got(2, 5).unlock(2), []string{"tokens"}},
		{"none", newScript().call(1).got(1, 0).unlock(1), []string{"tokens"}},
		{"readers in any order", newScript().call(1, reader).got(1, 6).unlock(1).call(2, reader).got(2, 5).unlock(2), nil},
		{"a reader below a writer", newScript().call(1).got(1, 6).unlock(1).call(2, reader).got(2, 5).unlock(2), []string{"tokens"}},
		{"a writer below a reader", newScript().call(1, reader).got(1, 6).unlock(1).call(2).got(2, 5).unlock(2), []string{"tokens"}},
		{"another token on re-entry", newScript().call(1).got(1, 6).
			add(Event{Kind: Reentered, Acq: 1, OK: true, Token: 7}).unlock(1), []string{"tokens"}},
		{"falls after a data loss", newScript().call(1).got(1, 6).unlock(1).store(LostData, 0).
			call(2).got(2, 5).unlock(2), []string{"tokens"}},
		{"falls after the clock went back and the memory was lost", newScript().call(1).got(1, 6).unlock(1).
			store(Stepped, -time.Hour).store(LostData, 0).call(2).got(2, 5).unlock(2), nil},
	})
}

// TestCheckTokensAfterARestore: a waiter may find a grant with a lower token if the store
// was restored without a grace period to data that has this grant (simulator, seed 838264).
func TestCheckTokensAfterARestore(t *testing.T) {
	lease := func(client int, name string, token driver.Token) leaseID {
		return leaseID{client, name, token * driver.TokenStep}
	}
	restored := func(has ...leaseID) Event { return Event{Kind: Restored, Back: has} }
	higher := func(s *script) *script { return s.call(1).got(1, 6).unlock(1) }
	lower := func(s *script) *script { return s.at(9).call(2).got(2, 5).unlock(2) }
	own, tokens := lease(1, "x", 5), []string{"tokens"}
	judge(t, []judgement{
		{"its grant is in the older data", lower(higher(newScript()).add(restored(lease(0, "x", 4), own))), nil},
		{"called before the restore", higher(newScript()).call(2).add(restored(own)).got(2, 5).unlock(2), nil},
		{"with grace", lower(higher(newScript().having(grace)).add(restored(own))), tokens},
		{"a grant that the older data does not have", lower(higher(newScript()).add(restored())), tokens},
		{"a grant of another client", lower(higher(newScript()).add(restored(lease(0, "x", 5)))), tokens},
		{"a grant of another name", lower(higher(newScript()).add(restored(lease(1, "y", 5)))), tokens},
		{"a grant with another token", lower(higher(newScript()).add(restored(lease(1, "x", 4)))), tokens},
		{"the higher token was returned after the restore", lower(higher(newScript().add(restored(own)))), tokens},
		{"returned before the restore", lower(higher(newScript())).add(restored(own)), tokens},
		{"the same token", higher(newScript()).add(restored(lease(1, "x", 6))).call(2).got(2, 6).unlock(2), tokens},
	})
}

func TestCheckFence(t *testing.T) {
	two := func() *script { return newScript().call(1).got(1, 5) }
	stale := func() *script { // #1 was notified, #2 has it now
		s := two().at(1).notified(1, errLost).call(2).got(2, 6)
		s.h.Struck[0] = 1
		return s
	}
	end := func(s *script) *script {
		return s.unlock(2).add(Event{Kind: Unlocking, Acq: 1}).add(Event{Kind: Unlocked, Acq: 1, Err: errLost})
	}
	judge(t, []judgement{
		{"read and written", two().access(Read, 1, 5, 0, true).access(Wrote, 1, 5, 0, true).unlock(1), nil},
		{"a stale one is refused", end(stale().access(Wrote, 2, 6, 0, true).access(Wrote, 1, 5, 0, false)), nil},
		{"a stale one is let in", end(stale().access(Wrote, 2, 6, 0, true).access(Wrote, 1, 5, 1, true)), []string{"fence"}},
		{"written between read and write", end(stale().access(Read, 2, 6, 0, true).access(Wrote, 1, 5, 0, true).
			access(Wrote, 2, 6, 1, true)), []string{"fence"}},
		{"written between two reads", newScript().call(1, reader).got(1, 5).access(Read, 1, 5, 0, true).
			access(Read, 1, 5, 1, true).unlock(1), []string{"fence"}},
		{"a holder is refused", two().access(Wrote, 1, 5, 0, false).unlock(1), []string{"fence"}},
		{"a holder is refused after the clock jumped", two().store(Stepped, time.Second).
			access(Wrote, 1, 5, 0, false).unlock(1), nil},
	})
}

func TestCheckOverlap(t *testing.T) {
	both := func(s *script) *script { return s.call(1).call(2).got(1, 5).got(2, 6).unlock(1).unlock(2) }
	readBoth := newScript().call(1, reader).call(2, reader).got(1, 5).got(2, 6).unlock(1).unlock(2)
	judge(t, []judgement{
		{"two holders", both(newScript()), []string{"overlap"}},
		{"two holders after the clock jumped", both(newScript().store(Stepped, time.Second)), nil},
		{"two holders after the clock went back", both(newScript().store(Stepped, -time.Second)), []string{"overlap"}},
		{"two holders after a data loss", both(newScript().store(LostData, 0)), nil},
		{"two holders after a restart", both(newScript().store(Restarted, 0)), []string{"overlap"}},
		{"two holders after a loss with grace", both(newScript().having(func(s *Schedule) { s.Store.Grace = true }).
			store(LostData, 0)), []string{"overlap"}},
		{"two readers", readBoth, nil},
		{"a reader and a writer", newScript().call(1, reader).call(2).got(1, 5).got(2, 6).unlock(1).unlock(2), []string{"overlap"}},
		{"a full semaphore", newScript().call(1, permits(2, 3)).call(2, permits(1, 3)).got(1, 5).got(2, 6).unlock(1).unlock(2), nil},
		{"more than a full semaphore", newScript().call(1, permits(2, 3)).call(2, permits(2, 3)).got(1, 5).got(2, 6).
			unlock(1).unlock(2), []string{"overlap"}},
		{"notified just then", notified(newScript().call(1).call(2).got(1, 5).at(1).got(2, 6)), nil},
		{"notified too late", notified(newScript().call(1).call(2).got(1, 5).at(1).got(2, 6).at(1.001)), []string{"overlap"}},
		{"dead", newScript().call(1).call(2).got(1, 5).add(Event{Kind: Killed, Client: 0}).got(2, 6).unlock(2).
			notified(1, errLost), nil},
		{"dead only later", newScript().call(1).call(2).got(1, 5).got(2, 6).add(Event{Kind: Killed, Client: 0}).unlock(2).
			at(1).notified(1, errLost), []string{"overlap"}},
	})
}

// notified ends #1, which a fault struck, and then #2.
func notified(s *script) *script {
	s.h.Struck[0] = 1
	s.notified(1, errLost).add(Event{Kind: Unlocking, Acq: 1}).add(Event{Kind: Unlocked, Acq: 1, Err: errLost})
	return s.unlock(2)
}

func TestCheckSurvive(t *testing.T) {
	lose := func(s *script, err error) *script {
		return s.call(1).got(1, 5).at(1).notified(1, err).add(Event{Kind: Unlocking, Acq: 1}).
			add(Event{Kind: Unlocked, Acq: 1, Err: err})
	}
	struck := newScript()
	struck.h.Struck[0] = 1
	grace := func(s *Schedule) { s.Store.Grace = true }
	refused := errors.New("refused")
	unlockFails := func(s *script) *script {
		return s.call(1).got(1, 5).add(Event{Kind: Unlocking, Acq: 1}).notified(1, fencelock.ErrReleased).
			add(Event{Kind: Unlocked, Acq: 1, Err: refused})
	}
	judge(t, []judgement{
		{"lost for nothing", lose(newScript(), errLost), []string{"survive"}},
		{"lost by a fault", lose(struck, errLost), nil},
		{"at its end", lose(newScript(), errExpired), nil},
		{"lost with the data", lose(newScript().store(LostData, 0), errLost), nil},
		{"lost with the data in spite of grace", lose(newScript().having(grace).store(LostData, 0), errLost), []string{"survive"}},
		{"lost by a restart", lose(newScript().store(Restarted, 0), errLost), []string{"survive"}},
		{"lost by a jump of the clock", lose(newScript().store(Stepped, time.Second), errLost), nil},
		{"unlock fails for nothing", unlockFails(newScript()), []string{"survive"}},
		{"unlock fails in a restart", unlockFails(newScript().store(Restarted, 0).at(0.5)), nil},
		{"unlock fails long after a restart", unlockFails(newScript().store(Restarted, 0).at(5)), []string{"survive"}},
	})
}

func TestCheckAnswers(t *testing.T) {
	busy := &fencelock.BusyError{Name: "x"}
	late := context.DeadlineExceeded
	struck := newScript().having(storm).call(1).at(1).failed(1, fencelock.ErrUnavailable)
	struck.h.Struck[0] = 1
	judge(t, []judgement{
		{"busy", newScript().call(1).got(1, 5).call(2, try).failed(2, busy).unlock(1), nil},
		{"busy without a holder or waiter", newScript().call(1).got(1, 5).unlock(1).at(1).call(2, try).failed(2, busy), []string{"answers"}},
		{"busy with a waiter", newScript().call(1).call(2, try).failed(2, busy).got(1, 5).unlock(1), nil},
		{"busy and kept", newScript().call(1, keep(time.Minute)).got(1, 5).unlock(1).at(1).call(2, try).failed(2, busy), nil},
		{"busy and no longer kept", newScript().call(1, keep(time.Second)).got(1, 5).unlock(1).at(2).call(2, try).failed(2, busy),
			[]string{"answers"}},
		{"busy and no try", newScript().call(1).got(1, 5).call(2).failed(2, busy).unlock(1), []string{"answers"}},
		{"patience is over", newScript().call(1).got(1, 5).call(2).at(60).failed(2, late).unlock(1), nil},
		{"patience is not over", newScript().call(1).got(1, 5).call(2).at(59).failed(2, late).unlock(1), []string{"answers"}},
		{"unavailable for nothing", newScript().call(1).failed(1, fencelock.ErrUnavailable), []string{"answers"}},
		{"unavailable by a fault", struck, nil},
		{"closed", newScript().call(1).add(Event{Kind: Closing}).failed(1, fencelock.ErrClosed).add(Event{Kind: Closed, OK: true}), nil},
		{"closed for nothing", newScript().call(1).failed(1, fencelock.ErrClosed), []string{"answers"}},
		{"broken for nothing", newScript().call(1, withOthers).failed(1, fencelock.LossForceUnlock), []string{"answers"}},
		{"broken during the wait for another", newScript().call(1, withOthers).add(Event{Kind: Broke, Name: "x", Token: 5}).
			failed(1, fencelock.LossForceUnlock), nil},
	})
}

func TestCheckFIFO(t *testing.T) {
	claims := func(s *script, cs ...Claim) *script { s.h.Claims = cs; return s }
	claim := func(client, before, after int, token driver.Token) Claim {
		return Claim{Client: client, Name: "x", Queue: true, Before: before, After: after, Token: token * driver.TokenStep}
	}
	restless := claim(0, 1, 2, 7)
	restless.Restless = true
	twice := claim(0, 1, 2, 5)
	twice.Again = 6 * driver.TokenStep
	twiceReset := twice
	twiceReset.Restless = true
	reclaimed := claim(1, 3, 4, 5)
	reclaimed.Reclaimed = true
	twiceReclaimed := twice
	twiceReclaimed.Reclaimed = true
	noQueue := func(s *Schedule) { s.Store.NoQueue = true }
	judge(t, []judgement{
		{"in order", claims(newScript(), claim(0, 1, 2, 5), claim(1, 3, 4, 6)), nil},
		{"granted twice", claims(newScript(), twice), []string{"fifo"}},
		{"granted again after a loss", claims(newScript(), twiceReset), nil},
		{"overtaken", claims(newScript(), claim(0, 1, 2, 6), claim(1, 3, 4, 5)), []string{"fifo"}},
		{"reclaimed with an older token", claims(newScript(), claim(0, 1, 2, 6), reclaimed), nil},
		{"reclaimed and granted again", claims(newScript(), twiceReclaimed), []string{"fifo"}},
		{"at the same moment", claims(newScript(), claim(0, 1, 3, 6), claim(1, 2, 4, 5)), nil},
		{"never granted", claims(newScript(), claim(0, 1, 2, 0), claim(1, 3, 4, 5)), nil},
		{"in line again after a loss", claims(newScript(), restless, claim(1, 3, 4, 6)), nil},
		{"no queue", claims(newScript().having(noQueue), claim(0, 1, 2, 6), claim(1, 3, 4, 5)), nil},
		{"overtaken in the client", newScript().having(func(s *Schedule) { s.Weather = Storm }).call(1).at(1).call(4).at(2).
			got(4, 5).unlock(4).got(1, 6).unlock(1), []string{"fifo"}},
		{"asked at one instant", newScript().call(1).call(4).got(4, 5).unlock(4).got(1, 6).unlock(1), nil},
	})
}
