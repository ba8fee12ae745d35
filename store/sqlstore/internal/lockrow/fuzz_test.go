// SPDX-License-Identifier: Apache-2.0

package lockrow

import (
	"testing"

	"github.com/fencelock/fencelock/driver"
)

// FuzzRow: a row that was damaged is an error or is used without a panic; and what is
// written of it is read again.
func FuzzRow(f *testing.F) {
	f.Fuzz(func(t *testing.T, holder, record, grants, queue, marks string, counter, now int64) {
		lock, err := Decode(&Row{Counter: counter, Holder: holder, Seq: 1, Generation: 1, Inc: 1, Record: record, Grants: grants, Queue: queue, Marks: marks})
		if err != nil {
			return
		}
		st := &State{Lock: lock, Now: now, Inc: 1, Floor: 1, Sessions: map[string]Session{holder: {Generation: 1, Ends: now + 1, Done: 1}, "a": {Generation: 1, Ends: now + 1, Done: 1}}}
		st.Ended()
		st.Refresh()
		st.Status("x")
		st.Attempt(Claim{Session: "b", Seq: 9, Generation: 1, Plain: 1, Record: "{}"}, true)
		st.Withdraw("a", 1, driver.Withdrawal{Seq: 1, Name: "x", Tombstone: true})
		st.Break(driver.Token(counter))
		row, err := st.Encode()
		if err != nil {
			t.Fatalf("it cannot be written: %v", err)
		}
		if _, err := Decode(row); err != nil {
			t.Errorf("what was written cannot be read: %v", err)
		}
	})
}
