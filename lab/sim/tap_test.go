// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// tapTest makes calls through a tap, on sessions with a TTL of a second.
type tapTest struct {
	*testing.T
	tap *tap
}

func newTapTest(t *testing.T, store *memstore.Store) tapTest {
	return tapTest{t, &tap{Store: store, line: newArrivals(func() int { return 0 }),
		closing: func(call func() error) (int, error) { return 0, call() }}}
}

func (t tapTest) open(id byte) driver.Session {
	t.Helper()
	s, _, err := t.tap.Open(context.Background(), driver.OpenRequest{Shard: "0", ID: driver.SessionID{id}, TTL: time.Second})
	must.OK(t, err)
	return s
}

func (t tapTest) attempt(s driver.Session, want driver.State) driver.Token {
	t.Helper()
	out, err := s.Attempt(context.Background(), &driver.Claim{Seq: 1, Name: "x", Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
	if err != nil || out.State != want {
		t.Fatalf("attempt: %v, %v, want %v", out.State, err, want)
	}
	return out.Token
}

func (t tapTest) reclaim(s driver.Session, held driver.Held) {
	t.Helper()
	if kept, err := s.Reclaim(context.Background(), []driver.Held{held}, true); err != nil || !kept[0] {
		t.Fatalf("reclaim: %v, %v", kept, err)
	}
}

func (t tapTest) close(s driver.Session) {
	t.Helper()
	must.OK(t, s.Close(context.Background()))
}

// TestTapKnowsTheInstancesOfASession: the claim of a session that ended and was opened
// again is a new arrival. Until the session ends, it is the same claim.
func TestTapKnowsTheInstancesOfASession(t *testing.T) {
	for _, c := range []struct {
		what   string
		before func(tapTest, driver.Session) // the session is opened again
		claims int
	}{
		{"opened twice", func(tapTest, driver.Session) {}, 1},
		{"kept alive", func(t tapTest, s driver.Session) {
			for range 3 {
				time.Sleep(time.Second / 2)
				if _, err := s.KeepAlive(context.Background()); err != nil {
					t.Error(err)
				}
			}
		}, 1},
		{"closed", func(t tapTest, s driver.Session) { t.close(s) }, 2},
		{"not kept alive", func(tapTest, driver.Session) { time.Sleep(time.Second) }, 2},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newTapTest(t, memstore.New(nil))
				s := x.open(1)
				x.attempt(s, driver.Granted)
				c.before(x, s)
				x.open(1)
				x.attempt(s, driver.Granted) // late, on the first value
				claims := x.tap.line.list()
				if len(claims) != c.claims {
					t.Errorf("%d claims, want %d: %+v", len(claims), c.claims, claims)
				}
				for _, claim := range claims {
					if claim.Again != 0 || claim.Restless {
						t.Errorf("claim %+v was granted twice or is restless", claim)
					}
				}
			})
		})
	}
}

// TestTapKnowsThePlaceOfALateAttempt: after the end of its session the claim is
// behind those that were queued in between (simulator, seed 555277).
func TestTapKnowsThePlaceOfALateAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTapTest(t, memstore.New(nil))
		a, b := x.open(1), x.open(2)
		x.attempt(a, driver.Granted)
		x.attempt(b, driver.Queued)
		x.close(a)
		x.open(1)
		x.attempt(a, driver.Queued)
		x.attempt(b, driver.Granted)
		x.close(b)
		x.attempt(a, driver.Granted)
		h := newScript().h
		h.Claims = x.tap.line.list()
		if len(h.Claims) != 3 {
			t.Errorf("%d claims, want 3: %+v", len(h.Claims), h.Claims)
		}
		for _, v := range Check(h) {
			t.Errorf("%s: %s", v.Checker, v.What)
		}
	})
}

// TestTapKnowsAReclaimedGrant: a claim whose grant was put back by Reclaim, after its
// session had ended, did not wait for it (simulator, seed 296301). If the store granted
// it a new token, it did.
func TestTapKnowsAReclaimedGrant(t *testing.T) {
	for _, c := range []struct {
		what      string
		after     func(tapTest, driver.Session, driver.Held) // the session was opened again
		reclaimed bool
	}{
		{"reclaimed", func(t tapTest, s driver.Session, held driver.Held) { t.reclaim(s, held) }, true},
		{"attempted, then reclaimed", func(t tapTest, s driver.Session, held driver.Held) {
			t.attempt(s, driver.Queued)
			t.reclaim(s, held)
		}, true},
		{"granted again", func(tapTest, driver.Session, driver.Held) { time.Sleep(time.Second / 3) }, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New(&memstore.Options{Grace: true, MaxTTL: 5 * time.Second / 4})
				x := newTapTest(t, store)
				held := driver.Held{Token: x.attempt(x.open(1), driver.Granted),
					Claim: driver.Claim{Seq: 1, Name: "x", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}}
				x.tap.line.reborn()
				store.Restart()
				store.StepClock(time.Second) // the session has ended, the grace period has not
				a, b := x.open(1), x.open(2)
				if c.reclaimed {
					x.attempt(b, driver.Queued)
				}
				c.after(x, a, held)
				x.attempt(a, driver.Granted) // the first in this instance, or a repeated one
				if !c.reclaimed {
					x.attempt(b, driver.Queued)
				}
				x.close(a)
				time.Sleep(time.Second / 3) // the grace period is over
				x.attempt(b, driver.Granted)
				h := newScript().h
				h.Claims = x.tap.line.list()
				for _, v := range Check(h) {
					t.Errorf("%s: %s", v.Checker, v.What)
				}
				for _, claim := range h.Claims[1:] { // the first is of the first instance
					if want := c.reclaimed && claim.Token == held.Token; claim.Reclaimed != want {
						t.Errorf("reclaimed %v, want %v: %+v", claim.Reclaimed, want, h.Claims)
					}
				}
			})
		})
	}
}

// TestPassesBefore: a session that is opened again reaches the store below the network and the taps as its own value.
func TestPassesBefore(t *testing.T) {
	drivertest.PassesBefore(t, memstore.New(nil), func(inner driver.Store) driver.Store {
		x := newTapTest(t, nil)
		x.tap.Store = inner
		return &meter{x.tap, &process{w: &world{rec: newRecorder(&Schedule{}), line: x.tap.line}, machine: newMachine()}}
	})
}
