// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

func storm(s *Schedule)    { s.Weather = Storm }
func deaf(s *Schedule)     { s.Weather = Deaf }
func dataLost(s *Schedule) { s.Weather = DataLoss }

func TestCheckWakeup(t *testing.T) {
	// #2 waits from 0 s on, #1 unlocks at 1 s, #2 gets it at the given time.
	wait := func(s *script, until float64) *script {
		return s.call(1).got(1, 5).call(2).at(1).unlock(1).at(until).got(2, 6).unlock(2)
	}
	kept := newScript().call(1, keep(2*time.Second)).got(1, 5).call(2).at(1).unlock(1).at(2.1).got(2, 6).unlock(2)
	keptLong := newScript().call(1, keep(2*time.Second)).got(1, 5).call(2).at(1).unlock(1).at(5).got(2, 6).unlock(2)
	noPush := func(s *Schedule) { s.Store.NoPush = true }
	judge(t, []judgement{
		{"at once", wait(newScript(), 1), nil},
		{"late", wait(newScript(), 1.002), []string{"wakeup"}},
		{"polled", wait(newScript().having(noPush), 1.06), nil},
		{"polled late", wait(newScript().having(noPush), 1.07), []string{"wakeup"}},
		{"a push was lost", wait(newScript().having(deaf), 2.1), nil},
		{"a push was lost and no waiter polled", wait(newScript().having(deaf), 2.3), []string{"wakeup"}},
		{"while data is lost", wait(newScript().having(dataLost), 5), nil},
		{"long after data was lost", wait(newScript().having(dataLost), 7), []string{"wakeup"}},
		{"in a storm", wait(newScript().having(storm), 30), nil},
		{"after the storm", wait(newScript().having(storm).store(Cleared, 0), 1.1), []string{"wakeup"}},
		{"kept", kept, nil},
		{"kept and then lost", keptLong, []string{"wakeup"}},
		{"room in a semaphore", newScript().call(1, permits(1, 3)).got(1, 5).call(2, permits(2, 3)).at(1).got(2, 6).
			unlock(1).unlock(2), []string{"wakeup"}},
		{"no room in a semaphore", newScript().call(1, permits(2, 3)).got(1, 5).call(2, permits(2, 3)).at(1).unlock(1).
			got(2, 6).unlock(2), nil},
		{"a reader beside a reader", newScript().call(1, reader).got(1, 5).call(2, reader).at(1).got(2, 6).
			unlock(1).unlock(2), []string{"wakeup"}},
		{"a reader behind a writer", newScript().call(1, reader).got(1, 5).call(2).call(3, reader).at(1).unlock(1).
			got(2, 6).unlock(2).got(3, 7).unlock(3), nil},
		{"a dead waiter", newScript().call(1).got(1, 5).call(2).at(1).add(Event{Kind: Killed, Client: 1}).unlock(1).
			at(5).failed(2, context.Canceled), nil},
		{"a holder at its fixed end", newScript().call(1).got(1, 5).call(2).at(1).notified(1, errExpired).got(2, 6).unlock(2), nil},
		{"a holder long past its fixed end", newScript().call(1).got(1, 5).call(2).at(1).notified(1, errExpired).
			at(2).got(2, 6).unlock(2), []string{"wakeup"}},
	})
}

func TestCheckStuck(t *testing.T) {
	fresh := func(s *script, err error) *script {
		s.add(Event{Kind: Called, Client: 3, Acq: 9, Name: "x", Weight: 1, Try: true})
		return s.add(Event{Kind: Returned, Client: 3, Acq: 9, Err: err, OK: err == nil, Token: 9 * 256}).
			add(Event{Kind: Notified, Client: 3, Acq: 9, Err: fencelock.ErrReleased})
	}
	quiet := func() *script { return newScript().having(storm).store(Cleared, 0) }
	lost := func(s *script) *script { s.h.Struck[0] = 1; return s } // else another checker complains too
	busy := &fencelock.BusyError{Name: "x"}
	taken := func() *script { return quiet().call(2).got(2, 5) } // and never unlocked
	judge(t, []judgement{
		{"had", quiet().call(1).got(1, 5).unlock(1), nil},
		{"had late", taken().call(1).at(9).unlock(2).got(1, 6).unlock(1), []string{"stuck"}},
		{"not had", lost(taken().call(1).at(9).failed(1, context.DeadlineExceeded).unlock(2)), []string{"stuck"}},
		{"refused", lost(quiet().call(1).failed(1, fencelock.ErrUnavailable)), []string{"stuck"}},
		{"never returned", quiet().call(1), []string{"stuck"}},
		{"before it was clear", lost(newScript().having(storm).call(1).at(9).failed(1, fencelock.ErrUnavailable).
			store(Cleared, 0)), nil},
		{"dead", quiet().add(Event{Kind: Killed}).call(1), nil},
		{"a fresh client gets it", fresh(quiet(), nil), nil},
		{"a fresh client does not get it", fresh(quiet().call(1, keep(time.Hour)).got(1, 5).unlock(1), busy), []string{"stuck"}},
	})
}

func TestCheckLeak(t *testing.T) {
	stuck := newScript()
	stuck.h.Stuck = errors.New("deadlock")
	spun := newScript()
	spun.h.Spun[1] = true
	// The store ended the session at the place 2, notified the client, and was then
	// restored to the copy of the place copied.
	back := func(copied int, session byte) *script {
		return newScript().add(Event{Kind: Closing}).add(Event{Kind: SessionClosed}).
			add(Event{Kind: SessionEnded, Session: driver.SessionID{1}, Since: 2}).
			add(Event{Kind: Restored, Since: copied}).
			add(Event{Kind: Remained, Session: driver.SessionID{session}, N: 1}).
			add(Event{Kind: Closed, OK: true, N: 1})
	}
	early := newScript().add(Event{Kind: Closing}).add(Event{Kind: Restored}).
		add(Event{Kind: SessionEnded, Session: driver.SessionID{1}, Since: 2}).
		add(Event{Kind: Remained, Session: driver.SessionID{1}, N: 1}).add(Event{Kind: Closed, OK: true, N: 1})
	// The withdrawal of a claim was confirmed at that place, or never if it is 0. The
	// store was then restored, and the end of the session was confirmed or not.
	again := func(withdrawn, copied int, ended bool) *script {
		s := newScript().call(1).got(1, 5).unlock(1).add(Event{Kind: Restored, Since: copied}).add(Event{Kind: Closing})
		if ended {
			s.add(Event{Kind: SessionEnded, Session: driver.SessionID{1}, Since: len(s.h.Events)})
		}
		return s.add(Event{Kind: Remained, Session: driver.SessionID{1}, N: 1, Since: withdrawn}).add(Event{Kind: Closed, OK: true, N: 1})
	}
	unconfirmed := fmt.Errorf("%w: %w", fencelock.ErrUnavailable, context.DeadlineExceeded)
	twice := func(first, again error) *script {
		return newScript().add(Event{Kind: Closing}).add(Event{Kind: Closed, Err: first}).
			at(1).add(Event{Kind: Closing}).add(Event{Kind: Closed, Err: again})
	}
	judge(t, []judgement{
		{"an ended session came back with older data", back(1, 1), nil},
		{"another session came back with older data", back(1, 2), []string{"leak"}},
		{"the older data is of after the end", back(3, 1), []string{"leak"}},
		{"ended after the older data came back", early, []string{"leak"}},
		{"a withdrawn claim came back with older data", again(3, 1, false), nil},
		{"a withdrawn claim came back, and the session was ended since", again(3, 1, true), []string{"leak"}},
		{"a claim that was not withdrawn came back", again(0, 0, false), []string{"leak"}},
		{"the older data is of after the withdrawal", again(3, 4, false), []string{"leak"}},
		{"closed again, not confirmed since", twice(context.DeadlineExceeded, unconfirmed), nil},
		{"closed again, and does not end", twice(unconfirmed, context.DeadlineExceeded), []string{"leak"}},
		{"notified by close", newScript().call(1).got(1, 5).add(Event{Kind: Closing}).notified(1, fencelock.ErrClosed).
			add(Event{Kind: Closed, OK: true}), nil},
		{"notified long after", newScript().call(1).got(1, 5).add(Event{Kind: Closing}).add(Event{Kind: Closed, OK: true}).
			at(1).notified(1, fencelock.ErrClosed), []string{"leak"}},
		{"close takes long for nothing", newScript().add(Event{Kind: Closing}).at(1).add(Event{Kind: Closed, OK: true}), []string{"leak"}},
		{"never notified", newScript().call(1).got(1, 5).add(Event{Kind: Closing}).add(Event{Kind: Closed, OK: true}), []string{"leak"}},
		{"close does not end", newScript().add(Event{Kind: Closing}).add(Event{Kind: Closed, Err: context.DeadlineExceeded}),
			[]string{"leak"}},
		{"closed at the second try", newScript().add(Event{Kind: Closing}).add(Event{Kind: Closed, Err: context.DeadlineExceeded}).
			add(Event{Kind: Closing}).add(Event{Kind: Closed, OK: true}), nil},
		{"closed without an error, and claims are left", newScript().add(Event{Kind: Closing}).add(Event{Kind: Closed, OK: true, N: 1}),
			[]string{"leak"}},
		{"a goroutine is left", stuck, []string{"leak"}},
		{"a client spins", spun, []string{"spin"}},
	})
}
