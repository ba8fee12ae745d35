// SPDX-License-Identifier: Apache-2.0

package lockrow

import (
	"slices"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

// TestHandoffLockInARecord: a handoff lock leaves the record as it was, and no text of a caller is one.
func TestHandoffLockInARecord(t *testing.T) {
	for _, r := range []driver.Record{{}, {Owner: "a", Reason: `"handoff lock":5}`}, {Labels: map[string]string{"handoff": "1"}}} {
		for _, watch := range []bool{false, true} {
			c, err := NewClaim("s", 1, &driver.Claim{Seq: 1, Watch: watch, Terms: &driver.Terms{Weight: 1, Record: &r}})
			must.OK(t, err)
			if got := HandoffLockOf(c.Record); got != 0 {
				t.Errorf("%s has handoff lock %d", c.Record, got)
			}
			const id = 1<<53 - 1
			with := Claim{Record: WithHandoffLock(c.Record, id)}
			if got := HandoffLockOf(with.Record); got != id {
				t.Errorf("%s: got handoff lock %d, want %d", with.Record, got, int64(id))
			}
			if got := with.record(); got.Owner != r.Owner || got.Reason != r.Reason || len(got.Labels) != len(r.Labels) || with.watched() != watch {
				t.Errorf("%s: the record is %+v, want %+v", with.Record, got, r)
			}
		}
	}
	for _, damaged := range []string{"", "{", "null", `{"handoff lock":"x"}`} {
		if got := HandoffLockOf(WithHandoffLock(damaged, 0)); got != 0 {
			t.Errorf("%q has handoff lock %d", damaged, got)
		}
	}
}

// TestHandoffLocksBefore: before a claim are those in front of it, and a holder that is alone.
func TestHandoffLocksBefore(t *testing.T) {
	claim := func(session string, handoffLock int64) Claim {
		return Claim{Session: session, Seq: 1, Record: WithHandoffLock("{}", handoffLock)}
	}
	st := State{Lock: &Lock{Grants: []Claim{claim("h", 7)}, Queue: []Claim{claim("a", 0), claim("b", 9), claim("c", 0)}}}
	for session, want := range map[string][]int64{"a": {7}, "b": {0, 7}, "c": {9, 0, 7}, "h": nil, "x": nil} {
		if got := slices.Collect(st.HandoffLocksBefore(session, 1)); !slices.Equal(got, want) {
			t.Errorf("before %s are the handoff locks %d, want %d", session, got, want)
		}
	}
	st.Grants = append(st.Grants, claim("g", 8))
	if got := slices.Collect(st.HandoffLocksBefore("a", 1)); len(got) != 0 {
		t.Errorf("before the first, behind two holders, are the handoff locks %d", got)
	}
	st.Grants = nil
	if got := slices.Collect(st.HandoffLocksBefore("a", 1)); len(got) != 0 {
		t.Errorf("before the first, without a holder, are the handoff locks %d", got)
	}
}
