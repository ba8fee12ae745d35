// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/memstore"
)

// script writes a history by hand. Times are in seconds, the TTL is one, and
// there are three clients.
type script struct {
	h   *History
	now time.Duration
}

func newScript() *script {
	s := &Schedule{Seed: 1, Weather: Calm, T: time.Second, Rate: 1, End: time.Hour, TailOps: 1,
		Store:   memstore.Options{MaxTTL: time.Second},
		Names:   []Name{{Name: "x"}},
		Clients: []ClientPlan{{TTL: time.Second, Workers: 1}, {TTL: time.Second, Workers: 1}, {TTL: time.Second, Workers: 1}}}
	return &script{h: &History{Schedule: s, Struck: []int{0, 0, 0}, Spun: []bool{false, false, false}}}
}

func (s *script) add(e Event) *script {
	e.At = s.now
	s.h.Events = append(s.h.Events, e)
	return s
}

// at moves the clock.
func (s *script) at(seconds float64) *script {
	s.now = time.Duration(seconds * float64(time.Second))
	return s
}

// client returns the client of an acquisition: #1 is of c0, #2 of c1, and so on.
func client(acq int) int { return (acq - 1) % 3 }

// call asks for x; the changes are made to an exclusive one of weight 1.
func (s *script) call(acq int, change ...func(*Event)) *script {
	e := Event{Kind: Called, Client: client(acq), Acq: acq, Name: "x", Weight: 1, D: time.Minute}
	for _, c := range change {
		c(&e)
	}
	return s.add(e)
}

func (s *script) got(acq int, token driver.Token) *script {
	return s.add(Event{Kind: Returned, Client: client(acq), Acq: acq, OK: true, Token: token * driver.TokenStep})
}

func (s *script) failed(acq int, err error) *script {
	return s.add(Event{Kind: Returned, Client: client(acq), Acq: acq, Err: err})
}

func (s *script) notified(acq int, err error) *script {
	return s.add(Event{Kind: Notified, Client: client(acq), Acq: acq, Err: err})
}

// unlock gives back without trouble.
func (s *script) unlock(acq int) *script {
	s.add(Event{Kind: Unlocking, Client: client(acq), Acq: acq})
	s.notified(acq, fencelock.ErrReleased)
	return s.add(Event{Kind: Unlocked, Client: client(acq), Acq: acq, OK: true})
}

func (s *script) access(kind Kind, acq int, token driver.Token, n int, ok bool) *script {
	return s.add(Event{Kind: kind, Client: client(acq), Acq: acq, Token: token * driver.TokenStep, N: n, OK: ok})
}

func (s *script) store(kind Kind, d time.Duration) *script { return s.add(Event{Kind: kind, D: d}) }

// having changes the schedule.
func (s *script) having(change func(*Schedule)) *script { change(s.h.Schedule); return s }

// The changes to a call.
func try(e *Event)    { e.Try = true }
func reader(e *Event) { e.Mode = driver.Shared }
func permits(n, limit int64) func(*Event) {
	return func(e *Event) { e.Mode, e.Weight, e.Limit = driver.Shared, n, limit }
}
func keep(d time.Duration) func(*Event) { return func(e *Event) { e.Keep = d } }

var (
	errLost    = errors.Join(fencelock.ErrLost, fencelock.LossUnrenewed)
	errExpired = errors.Join(fencelock.ErrLost, fencelock.LossMaxHold)
)

// judgement is a history and the checkers that must complain about it.
type judgement struct {
	what string
	s    *script
	want []string
}

func judge(t *testing.T, cases []judgement) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			var got []string
			for _, v := range Check(c.s.h) {
				got = append(got, v.Checker)
			}
			got = slices.Compact(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("complaints by %v, want %v\n%s", got, c.want, c.s.h.Lines())
				for _, v := range Check(c.s.h) {
					t.Log(v.Checker, v.What)
				}
			}
		})
	}
}
