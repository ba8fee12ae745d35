// SPDX-License-Identifier: Apache-2.0

package lockrow

import (
	"reflect"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

func claimOf(t *testing.T, terms driver.Terms, watch bool) Claim {
	t.Helper()
	c, err := NewClaim("a", 1, &driver.Claim{Seq: 1, Name: "x", Terms: &terms, Watch: watch})
	must.OK(t, err)
	return c
}

// TestWatchIsInTheRecord: whether a claim is watched and lingers is read from its record, which
// is shown as it was. A caller cannot write a record that looks watched.
func TestWatchIsInTheRecord(t *testing.T) {
	for _, rec := range []driver.Record{{}, {Owner: "a"}, {Owner: `{"watch":1`, Reason: `"watch":1`, Labels: map[string]string{"watch": "1"}}} {
		terms := driver.Terms{Weight: 1, Linger: 1500 * time.Millisecond, Record: &rec}
		c := claimOf(t, terms, true)
		if !c.watched() || c.linger() != terms.Linger || !reflect.DeepEqual(c.record(), rec) {
			t.Errorf("record %s: watched %t, lingers for %v, shows %+v", c.Record, c.watched(), c.linger(), c.record())
		}
		if c := claimOf(t, terms, false); c.watched() || c.linger() != 0 {
			t.Errorf("record %s: watched %t, lingers for %v", c.Record, c.watched(), c.linger())
		}
	}
}

// TestDowngradedClaimDoesNotLinger: a try of another process would wait for a reader that
// gives nothing back. The reader is watched still.
func TestDowngradedClaimDoesNotLinger(t *testing.T) {
	terms := driver.Terms{Weight: 1, Linger: time.Second, Record: &driver.Record{}}
	for _, watch := range []bool{true, false} {
		st := State{Lock: &Lock{}, Now: 1, Inc: 1, Sessions: map[string]Session{"a": {Generation: 1, Ends: 10}}}
		st.Attempt(claimOf(t, terms, true), false)
		shared := driver.Terms{Weight: 1, Mode: driver.Shared, Record: terms.Record}
		if out := st.Attempt(claimOf(t, shared, watch), false); out.State != driver.Granted {
			t.Fatalf("the downgrade is %v", out.State)
		}
		if h := st.Status("x").Holders[0]; h.Mode != driver.Shared || h.Linger != 0 || !st.Grants[0].watched() {
			t.Errorf("downgraded with Watch %t: %+v, watched %t", watch, h, st.Grants[0].watched())
		}
	}
}

// TestNotices: a watched grant is notified of the first claim that waits behind it.
func TestNotices(t *testing.T) {
	watched, other := Claim{Session: "a", Seq: 1, Record: withWatch("{}", 0)}, Claim{Session: "a", Seq: 1, Record: "{}"}
	waiter := Claim{Session: "b", Seq: 1}
	for name, c := range map[string]struct {
		before, after Lock
		want          int
	}{
		"queued behind it":         {Lock{Grants: []Claim{watched}}, Lock{Grants: []Claim{watched}, Queue: []Claim{waiter}}, 1},
		"a second one":             {Lock{Grants: []Claim{watched}, Queue: []Claim{waiter}}, Lock{Grants: []Claim{watched}, Queue: []Claim{waiter, waiter}}, 0},
		"granted with one behind":  {Lock{Queue: []Claim{watched, waiter}}, Lock{Grants: []Claim{watched}, Queue: []Claim{waiter}}, 1},
		"watched with one behind":  {Lock{Grants: []Claim{other}, Queue: []Claim{waiter}}, Lock{Grants: []Claim{watched}, Queue: []Claim{waiter}}, 1},
		"granted with none behind": {Lock{Queue: []Claim{watched}}, Lock{Grants: []Claim{watched}}, 0},
		"not watched":              {Lock{Grants: []Claim{other}}, Lock{Grants: []Claim{other}, Queue: []Claim{waiter}}, 0},
		"kept without a session":   {Lock{}, Lock{Grants: []Claim{{Record: watched.Record}}, Queue: []Claim{waiter}}, 0},
	} {
		if got := c.after.Notices(&c.before); len(got) != c.want || c.want == 1 && (got[0] != Push{Session: "a", Seq: 1}) {
			t.Errorf("%s: %+v, want %d notices", name, got, c.want)
		}
	}
}
