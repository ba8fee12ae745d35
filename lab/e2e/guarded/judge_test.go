// SPDX-License-Identifier: Apache-2.0

//go:build unix

package guarded

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// kind is a step of a worker.
type kind string

// The steps. A write is tried, and then acknowledged, rejected or of unknown outcome.
const (
	readValue kind = "read"     // entered, and read the value ID
	tries     kind = "tries"    // is about to write ID over Over
	written   kind = "written"  // the write of ID was acknowledged
	rejected  kind = "rejected" // the guard rejected the write of ID
	unknown   kind = "unknown"  // the write of ID failed in another way
	late      kind = "late"     // the guard rejected the entry
	failed    kind = "failed"   // anything else
)

// event is what a worker tells about a step.
type event struct {
	Worker string `json:"worker"`
	Kind   kind   `json:"kind"`
	Token  int64  `json:"token"`
	ID     string `json:"id,omitempty"`
	Over   string `json:"over,omitempty"`
	Error  string `json:"error,omitempty"`
}

// judge returns what is wrong with a run that ended with the value last. A worker tells of a
// write before it sends it, so every value is known, also of workers that were killed.
func judge(events []event, last string) (wrong []string) {
	writes := map[string]event{}
	for _, e := range events {
		if e.Kind == tries {
			writes[e.ID] = e
		}
	}
	survived := map[string]bool{"": true} // the empty value was there first
	for id := last; !survived[id]; {
		survived[id] = true
		w, known := writes[id]
		if !known {
			wrong = append(wrong, fmt.Sprintf("nobody wrote %s", id))
			break
		}
		if before, ok := writes[w.Over]; ok && before.Token > w.Token {
			wrong = append(wrong, fmt.Sprintf("%s with token %d replaced %s with token %d", id, w.Token, w.Over, before.Token))
		}
		id = w.Over
	}
	told := map[string]bool{} // a value is wrong once, however many have read it
	for _, e := range events {
		var what string
		switch {
		case e.Kind == written && !survived[e.ID]:
			what = "was acknowledged, and replaced by a holder that had not read it"
		case e.Kind == readValue && !survived[e.ID]:
			what = "was read after the fence was raised, and replaced by a holder that had not read it"
		case e.Kind == rejected && survived[e.ID]:
			what = "was rejected, and written"
		}
		if what != "" && !told[e.ID] {
			told[e.ID] = true
			wrong = append(wrong, fmt.Sprintf("%s of %s with token %d %s", e.ID, e.Worker, e.Token, what))
		}
	}
	return wrong
}

// TestJudge: each mistake of a guard is found, and what a guard may do is not reported.
func TestJudge(t *testing.T) {
	write := func(outcome kind, token int64, id, over string) []event {
		return []event{{Worker: "a", Kind: tries, Token: token, ID: id, Over: over}, {Worker: "a", Kind: outcome, Token: token, ID: id}}
	}
	for _, tt := range []struct {
		what   string
		events []event
		last   string
		wrong  string // in the only complaint; empty: there is none
	}{
		{"nothing happened", nil, "", ""},
		{"one after the other", slices.Concat(write(written, 1, "v1", ""), write(written, 1, "v2", "v1"), write(written, 2, "v3", "v2")), "v3", ""},
		{"rejected", slices.Concat(write(written, 2, "v2", ""), write(rejected, 1, "v1", "")), "v2", ""},
		{"unknown, and not written", slices.Concat(write(unknown, 1, "v1", ""), write(written, 2, "v2", "")), "v2", ""},
		{"unknown, and written", slices.Concat(write(unknown, 1, "v1", ""), write(written, 2, "v2", "v1")), "v2", ""},
		{"killed before the outcome", slices.Concat(write(unknown, 1, "v1", "")[:1], write(written, 2, "v2", "v1")), "v2", ""},
		{"lost update", slices.Concat(write(written, 2, "v2", ""), write(written, 1, "v1", "")), "v1", "v2 of a with token 2 was acknowledged, and replaced"},
		{"lost in the middle", slices.Concat(write(written, 2, "v2", ""), write(written, 1, "v1", ""), write(written, 3, "v3", "v1")), "v3", "v2 of a"},
		{"lost before it was acknowledged", slices.Concat(write(unknown, 2, "v2", ""), []event{{Worker: "b", Kind: readValue, Token: 3, ID: "v2"}}, write(written, 1, "v1", "")), "v1",
			"v2 of b with token 3 was read after the fence was raised"},
		{"older after newer", slices.Concat(write(written, 2, "v2", ""), write(written, 1, "v1", "v2")), "v1", "token 1 replaced v2 with token 2"},
		{"rejected and written", slices.Concat(write(rejected, 1, "v1", "")), "v1", "was rejected, and written"},
		{"from elsewhere", nil, "x", "nobody wrote x"},
	} {
		got := judge(tt.events, tt.last)
		if tt.wrong == "" && len(got) > 0 || tt.wrong != "" && (len(got) != 1 || !strings.Contains(got[0], tt.wrong)) {
			t.Errorf("%s: got %q, want %q", tt.what, got, tt.wrong)
		}
	}
}
