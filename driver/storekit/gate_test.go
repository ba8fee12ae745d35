// SPDX-License-Identifier: Apache-2.0

package storekit_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
)

// TestGate: a danger is refused unless it is accepted, what makes locks impossible always is, and the rest is reported once.
func TestGate(t *testing.T) {
	var warned []string
	g := storekit.Gate{Package: "x", Accept: []string{"known", "fatal", "small"}, Never: []string{"fatal"}, Passing: []string{"replica"},
		Warn: func(f driver.Finding) { warned = append(warned, f.Code) }}
	danger := func(codes ...string) (all []driver.Finding) {
		for _, c := range codes {
			all = append(all, driver.Finding{Severity: driver.Danger, Code: c, Reason: "about " + c})
		}
		return all
	}
	small := []driver.Finding{{Severity: driver.Warning, Code: "small"}, {Severity: driver.Warning, Code: "large"}, {Severity: driver.Note, Code: "note"}}
	for _, tt := range []struct {
		found []driver.Finding
		want  []string
	}{
		{append(danger("known", "replica"), small...), nil},
		{append(danger("known", "replica"), small...), nil},
		{danger("a", "known", "b", "a"), []string{"about a", "about b", "add accept=a,b to the URL"}},
		{danger("fatal"), []string{"about fatal"}},
	} {
		err := g.Judge(tt.found)
		if (err != nil) != (tt.want != nil) || err != nil && !errors.Is(err, driver.ErrRefused) {
			t.Errorf("%v: got %v", tt.found, err)
			continue
		}
		for _, w := range tt.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("got %v, want %q", err, w)
			}
		}
		if len(tt.want) == 1 && strings.Contains(err.Error(), "accept=") {
			t.Errorf("got %v: accepting it does not help", err)
		}
	}
	if want := []string{"replica", "large", "note"}; !slices.Equal(warned, want) {
		t.Errorf("reported %v, want %v", warned, want)
	}
}
