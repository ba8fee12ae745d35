// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/testhook"
)

// job is one run of an occurrence: asked for and begun at a time, and over at
// another with that answer.
func (s *script) job(acq int, begin, end float64, err error) *script {
	return s.at(begin).begin(acq).at(end).end(acq, err)
}

func (s *script) begin(acq int) *script {
	return s.add(Event{Kind: Began, Client: client(acq), Name: "job@1", Since: len(s.h.Events)})
}

// end ends a run. Unless it failed itself, its mark is confirmed or not.
func (s *script) end(acq int, err error) *script {
	e := Event{Kind: Ended, Client: client(acq), Name: "job@1"}
	if err == nil || errors.Is(err, fencelock.ErrReleased) || errors.Is(err, fencelock.ErrLost) {
		s.add(e)
	}
	e.Kind, e.OK, e.Err = Marked, err == nil, err
	return s.add(e)
}

func grace(s *Schedule) { s.Store.Grace = true }

// restore brings back the memory that was copied at a place in the history.
func (s *script) restore(since int) *script { return s.add(Event{Kind: Restored, Since: since}) }

func TestCheckOnce(t *testing.T) {
	failed := errors.New("failed")
	locked := func(s *script, at float64) *script {
		e := Event{Kind: Called, Client: 1, Acq: 2, Name: "job@1", Weight: 1, D: time.Minute}
		return s.at(at).add(e).got(2, 6).unlock(2)
	}
	unsure := errors.Join(fencelock.ErrReleased, fencelock.ErrUnavailable)
	// The run of #1 is asked for and granted before a loss. It begins, or is only
	// returned as a lock, with the given token after the run of #2 began.
	late := func(s *script, kind Kind, token driver.Token) *script {
		asked := len(s.h.Events)
		s.store(kind, 0).add(Event{Kind: Began, Client: 1, Name: "job@1", Since: asked + 1, Token: 6})
		return s.at(1).add(Event{Kind: Began, Name: "job@1", Since: asked, Token: token}).end(2, nil).at(2).end(1, errLost)
	}
	returned := func(s *script, token driver.Token) *script {
		s.add(Event{Kind: Called, Acq: 1, Name: "job@1", Weight: 1, D: time.Minute}).store(LostData, 0)
		s.add(Event{Kind: Began, Client: 1, Name: "job@1", Since: 2, Token: 6 * driver.TokenStep}).at(1).end(2, nil)
		return s.at(2).got(1, token).overBy(1, errLost)
	}
	judge(t, []judgement{
		{"one after the other", newScript().job(1, 0, 1, nil).job(2, 2, 3, nil), []string{"once"}},
		{"one beside the other", newScript().begin(1).job(2, 0, 1, nil).end(1, nil), []string{"once"}},
		{"its lock had while the mark is kept", locked(newScript().job(1, 0, 1, nil), 2), []string{"once"}},
		{"its lock had when the mark is gone", locked(newScript().job(1, 0, 1, nil), 5), nil},
		{"when the mark is gone", newScript().job(1, 0, 1, nil).job(2, 4, 5, nil), nil},
		{"after a failure", newScript().job(1, 0, 1, failed).job(2, 2, 3, nil), nil},
		{"after a lost lease", newScript().job(1, 0, 1, errLost).job(2, 2, 3, nil), nil},
		{"after a jump of the clock", newScript().job(1, 0, 1, nil).store(Stepped, 5).job(2, 2, 3, nil), nil},
		{"all data lost", newScript().job(1, 0, 1, nil).store(LostData, 0).job(2, 2, 3, nil), nil},
		{"all data lost with grace", newScript().having(grace).job(1, 0, 1, nil).store(LostData, 0).job(2, 2, 3, nil), nil},
		{"all data lost before it", newScript().store(LostData, 0).job(1, 0, 1, nil).job(2, 2, 3, nil), []string{"once"}},
		{"all data lost after both", newScript().job(1, 0, 1, nil).job(2, 2, 3, nil).store(LostData, 0), []string{"once"}},
		{"all data lost during it", newScript().begin(1).store(LostData, 0).at(1).end(1, nil).job(2, 2, 3, nil), nil},
		{"all data lost during it with grace", newScript().having(grace).begin(1).store(LostData, 0).at(1).end(1, nil).
			job(2, 2, 3, nil), []string{"once"}},
		{"granted before a loss, begun after it", late(newScript(), LostData, 5), nil},
		{"granted before a restore, begun after it", late(newScript(), Restored, 5), nil},
		{"granted before a loss with grace", late(newScript().having(grace), LostData, 5), []string{"once"}},
		{"granted before a restart", late(newScript(), Restarted, 5), []string{"once"}},
		{"asked for before a loss, granted after it", late(newScript(), LostData, 7), []string{"once"}},
		{"its lock granted before a loss", returned(newScript(), 5), nil},
		{"its lock granted after a loss", returned(newScript(), 7), []string{"once"}},
		{"its lock granted before a loss with grace", returned(newScript().having(grace), 5), []string{"once", "survive"}},
		{"restart", newScript().job(1, 0, 1, nil).store(Restarted, 0).job(2, 2, 3, nil), []string{"once"}},
		{"older memory without the mark", newScript().job(1, 0, 1, nil).restore(1).job(2, 2, 3, nil), nil},
		{"older memory with the mark", newScript().job(1, 0, 1, nil).restore(3).job(2, 2, 3, nil), []string{"once"}},
		{"unconfirmed", newScript().job(1, 0, 1, unsure).job(2, 2, 3, nil), []string{"once"}},
		{"unconfirmed in a restart", newScript().begin(1).store(Restarted, 0).at(1).end(1, unsure).job(2, 2, 3, nil), []string{"once"}},
		{"unconfirmed, and data lost", newScript().having(grace).job(1, 0, 1, unsure).store(LostData, 0).job(2, 2, 3, nil), nil},
		{"unconfirmed, and its session lost", newScript().job(1, 0, 1, unsure).add(Event{Kind: SessionLost}).job(2, 2, 3, nil), nil},
		{"unconfirmed, and another's session lost", newScript().job(1, 0, 1, unsure).add(Event{Kind: SessionLost, Client: 1}).
			job(2, 2, 3, nil), []string{"once"}},
		{"unconfirmed, and its process dead", newScript().job(1, 0, 1, unsure).add(Event{Kind: Killed}).job(2, 2, 3, nil), nil},
		{"confirmed, and its process dead", newScript().job(1, 0, 1, nil).add(Event{Kind: Killed}).job(2, 2, 3, nil), []string{"once"}},
	})
}

func TestCheckSuspend(t *testing.T) {
	// The machine of #1 is suspended from 1 s to 4 s, and #2 gets the lock in that
	// time; #1 is notified at the given time.
	asleep := func(notified float64) *script {
		s := newScript().call(1).got(1, 5).at(1).add(Event{Kind: Suspended, D: 3 * time.Second}).
			at(3).call(2).got(2, 6).at(4).add(Event{Kind: Resumed}).at(notified)
		return s.notified(1, errLost).add(Event{Kind: Unlocking, Acq: 1}).add(Event{Kind: Unlocked, Acq: 1, Err: errLost}).at(9).unlock(2)
	}
	// The machine of #1 is suspended from 1 s to 2 s and again from the given time to 4 s.
	// #2 gets the lock in between, at 2.1 s.
	twice := func(again, notified float64) *script {
		s := newScript().call(1).got(1, 5).at(1).add(Event{Kind: Suspended}).at(2).add(Event{Kind: Resumed}).
			at(2.1).call(2).got(2, 6).at(again).add(Event{Kind: Suspended}).at(4).add(Event{Kind: Resumed}).at(notified)
		return s.notified(1, errLost).add(Event{Kind: Unlocking, Acq: 1}).add(Event{Kind: Unlocked, Acq: 1, Err: errLost}).at(9).unlock(2)
	}
	judge(t, []judgement{
		{"suspended again before it knows", twice(2.4, 4.5), nil},
		{"suspended again, notified too late", twice(2.4, 4.6), []string{"overlap"}},
		{"suspended again when it must know", twice(2.6, 4.5), []string{"overlap"}},
		{"notified when it goes on", asleep(4.5), nil},
		{"notified too late", asleep(4.6), []string{"overlap"}},
		{"refused in that time", newScript().call(1).got(1, 5).add(Event{Kind: Suspended}).at(1).add(Event{Kind: Resumed}).
			access(Wrote, 1, 5, 0, false).overBy(1, errLost), nil},
		{"refused later", newScript().call(1).got(1, 5).add(Event{Kind: Suspended}).at(1).add(Event{Kind: Resumed}).
			at(2).access(Wrote, 1, 5, 0, false).at(3).overBy(1, errLost), []string{"fence"}},
		{"had before", newScript().call(1).got(1, 5).call(2).got(2, 6).at(1).add(Event{Kind: Suspended}).at(2).
			add(Event{Kind: Resumed}).unlock(1).unlock(2), []string{"overlap"}},
	})
}

func TestCheckReturned(t *testing.T) {
	lost := Event{Kind: LeaseLost, Name: "x", Token: 5 * driver.TokenStep, Err: errLost}
	broke := func(s *script) *script { return s.call(1).got(1, 5).breaks(5) }
	handsOff := func(s *script, client int, token driver.Token) *script {
		return s.add(Event{Kind: Unlocking, Acq: 1}).add(Event{Kind: HandedOff, Client: client, Name: "x", Token: token}).
			notified(1, fencelock.ErrReleased).add(Event{Kind: Unlocked, Acq: 1, OK: true})
	}
	waited := func() *script { return broke(newScript()).call(4).at(1) }
	next := driver.Token(5*driver.TokenStep + 1)
	passed := handsOff(waited(), 0, next).
		add(Event{Kind: Returned, Acq: 4, OK: true, Token: next}).overBy(4, errBroken)
	judge(t, []judgement{
		{"lost before it was returned", newScript().having(storm).call(1).add(lost).at(1).got(1, 5).overBy(1, errBroken).breaks(5), []string{"answers"}},
		{"lost just then", newScript().call(1).add(lost).got(1, 5).overBy(1, errBroken).breaks(5), nil},
		{"broken, and confirmed", broke(newScript()).at(1).unlock(1), []string{"answers"}},
		{"broken just then, and confirmed", broke(newScript()).unlock(1), nil},
		{"broken and handed off", passed, nil},
		{"broken and handed off to a waiter that gives up", handsOff(waited(), 0, next).failed(4, context.Canceled), nil},
		{"broken and handed off in another client", handsOff(waited(), 1, next).failed(4, context.Canceled), []string{"answers"}},
		{"broken, and a later grant handed off", handsOff(waited(), 0, 6*driver.TokenStep+1).failed(4, context.Canceled), []string{"answers"}},
		{"broken, and handed off before", waited().add(Event{Kind: HandedOff, Name: "x", Token: next}).unlock(1).failed(4, context.Canceled),
			[]string{"answers"}},
		{"broken, and the data lost", broke(newScript()).store(Restarted, 0).at(1).unlock(1), nil},
	})
}

func TestCheckElection(t *testing.T) {
	seen := func(token driver.Token) Event { return Event{Kind: Observed, OK: true, Token: token} }
	leads := func(e *Event) { e.Name = leaderName }
	resigned := Event{Kind: Resigned, Acq: 1, OK: true}
	judge(t, []judgement{
		{"terms rise", newScript().add(seen(1)).add(seen(0)).add(seen(2)), nil},
		{"terms go back", newScript().add(seen(2)).add(seen(0)).add(seen(1)), []string{"election"}},
		{"a kept leader", newScript().add(Event{Kind: Observed, Token: 1, Keep: time.Second}), []string{"election"}},
		{"ends for a reason", newScript().add(Event{Kind: Campaigned, OK: true}), nil},
		{"ends for no reason", newScript().add(Event{Kind: Campaigned}), []string{"election"}},
		{"resigned in time", newScript().call(1, leads).got(1, 5).unlock(1).add(resigned), nil},
		{"resigned too early", newScript().call(1, leads).got(1, 5).add(resigned).unlock(1), []string{"election"}},
	})
}

func TestCheckLeft(t *testing.T) {
	left := func(s *script, l Left) *script { s.h.Left = append(s.h.Left, l); return s }
	alive := func(s testhook.Session) Left { return Left{Alive: true, Session: s} }
	tombstone := alive(testhook.Session{Tombstones: 1})
	rest := newScript()
	rest.h.Rest = "a session"
	struck := newScript()
	struck.h.Struck[0] = 1
	judge(t, []judgement{
		{"an empty session", left(newScript(), alive(testhook.Session{})), nil},
		{"the session of a process that has ended", left(newScript(), Left{}), []string{"left"}},
		{"a grant", left(newScript(), alive(testhook.Session{Granted: []string{"x"}})), []string{"left"}},
		{"a queued claim", left(newScript(), alive(testhook.Session{Queued: []string{"x"}})), []string{"left"}},
		{"a claim that ended", left(newScript(), alive(testhook.Session{Ended: 1})), []string{"left"}},
		{"a claim that was broken", left(newScript(), alive(testhook.Session{Broken: 1})), []string{"left"}},
		{"a claim of an older memory", left(newScript().store(Restored, 0), alive(testhook.Session{Ended: 1})), nil},
		{"a grant of an older memory", left(newScript().store(Restored, 0), alive(testhook.Session{Granted: []string{"x"}})), []string{"left"}},
		{"a tombstone for nothing", left(newScript(), tombstone), []string{"left"}},
		{"a tombstone after a fault", left(struck, tombstone), nil},
		{"a tombstone of one that gave up", left(newScript().call(1).failed(1, fencelock.ErrClosed).add(Event{Kind: Closing}), tombstone), nil},
		{"something when all are closed", rest, []string{"left"}},
	})
}

func TestCheckNotice(t *testing.T) {
	rejected := Event{Kind: Rejected, Err: driver.ErrGone}
	lost, closed := Event{Kind: SessionLost}, Event{Kind: SessionClosed}
	judge(t, []judgement{
		{"lost at once", newScript().add(rejected).add(lost), nil},
		{"lost before", newScript().add(lost).at(1).add(rejected), nil},
		{"closed before", newScript().add(closed).at(1).add(rejected), nil},
		{"lost later", newScript().add(rejected).at(1).add(lost), []string{"notice"}},
		{"never lost", newScript().add(rejected), []string{"notice"}},
		{"another lost", newScript().add(rejected).add(Event{Kind: SessionLost, Session: driver.SessionID{1}}), []string{"notice"}},
	})
}
