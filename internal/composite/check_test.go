// SPDX-License-Identifier: Apache-2.0

package composite

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver"
)

// store is a part with findings, or an error.
type store struct {
	driver.Store
	node string
	err  error
}

// Check implements driver.Checker.
func (s store) Check(context.Context) ([]driver.Finding, error) {
	return []driver.Finding{{Severity: driver.Note, Code: "x", Node: s.node, Reason: "so it is"}}, s.err
}

func TestCheckNamesTheParts(t *testing.T) {
	silent := struct{ driver.Store }{} // not a Checker
	var got []string
	for _, f := range Check(t.Context(), []Part{
		{"a", store{}}, {"b:1", store{node: "b:1"}}, {"c", store{node: "h:2"}}, {"d", silent}, {"e", store{err: errors.New("gone")}},
	}, func(n int) driver.Finding {
		if n != 1 {
			t.Errorf("%d parts do not answer, want 1", n)
		}
		return driver.Finding{Severity: driver.Danger, Reason: "it does not answer", Fix: "start it"}
	}) {
		got = append(got, f.String())
	}
	want := "a: note: so it is (x)\nb:1: note: so it is (x)\nc (h:2): note: so it is (x)\n" +
		"e: note: so it is (x)\ne: danger: it does not answer: gone (unreachable); start it"
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}
