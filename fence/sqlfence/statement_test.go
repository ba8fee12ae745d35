// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/internal/must"
)

// What the statements do on real servers is proved in lab/e2e; here is
// what can be seen without one.

func TestRowStatement(t *testing.T) {
	m := fence.Mark{Lock: "a", Token: 512, Holder: "ann"}
	for _, tt := range []struct {
		d          Dialect
		holder     string
		want, args string
	}{
		{PostgreSQL, "", "UPDATE s.orders SET total = $1, f = $2 WHERE id = $3 AND COALESCE(f, 0) <= $2", "[110 512 42]"},
		{PostgreSQL, "h", "UPDATE s.orders SET total = $1, f = $2, h = $3 WHERE id = $4 AND COALESCE(f, 0) <= $2", "[110 512 ann 42]"},
		{MySQL, "", "UPDATE s.orders SET total = ?, f = LAST_INSERT_ID(GREATEST(COALESCE(f, 0), ?)) WHERE id = ? AND COALESCE(f, 0) <= ?", "[110 512 42 512]"},
		{MySQL, "h", "UPDATE s.orders SET total = ?, f = LAST_INSERT_ID(GREATEST(COALESCE(f, 0), ?)), h = ? WHERE id = ? AND COALESCE(f, 0) <= ?", "[110 512 ann 42 512]"},
	} {
		r, err := NewRow(tt.d, &RowOptions{Table: "s.orders", Key: "id", Fence: "f", Holder: tt.holder})
		must.OK(t, err)
		given := make([]any, 1, 8) // room to write over the caller's values
		given[0] = 110
		query, args := r.statement("total = "+tt.d.arg(1)+", ", given, 42, m)
		if query != tt.want || fmt.Sprint(args) != tt.args {
			t.Errorf("got  %s %v\nwant %s %s", query, args, tt.want, tt.args)
		}
		if full := given[:cap(given)]; full[1] != nil {
			t.Error("the caller's slice was written to")
		}
	}
}

func TestBadOptionsAreErrors(t *testing.T) {
	for _, tt := range []struct {
		what string
		err  error
		want string
	}{
		{"dialect of a table", second(NewTable(0, nil)), "dialect 0"},
		{"name of a table", second(NewTable(PostgreSQL, &TableOptions{Name: "a; DROP"})), `TableOptions.Name "a; DROP"`},
		{"dialect of a row", second(NewRow(9, &RowOptions{Table: "a", Key: "b"})), "dialect 9"},
		{"no table", second(NewRow(MySQL, nil)), `RowOptions.Table ""`},
		{"no key", second(NewRow(MySQL, &RowOptions{Table: "a"})), `RowOptions.Key ""`},
		{"bad column", second(NewRow(MySQL, &RowOptions{Table: "a", Key: "b", Holder: "c d"})), `RowOptions.Holder "c d"`},
	} {
		if tt.err == nil || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("%s: got %v, want it to name %s", tt.what, tt.err, tt.want)
		}
	}
	r, err := NewRow(MySQL, &RowOptions{Table: "a", Key: "b"})
	must.OK(t, err)
	if err := r.Update(t.Context(), nil, "a", 1, ""); err == nil || !strings.Contains(err.Error(), "Raise") {
		t.Errorf("an update of nothing: got %v", err)
	}
}

// TestAnEmptyNameIsNoLock: a guard that has lost the name of its lock must not
// take the token of any. No database is asked.
func TestAnEmptyNameIsNoLock(t *testing.T) {
	ctx := fence.With(t.Context(), fence.Mark{Lock: "a", Token: 512})
	table, err := NewTable(PostgreSQL, nil)
	must.OK(t, err)
	row, err := NewRow(PostgreSQL, &RowOptions{Table: "a", Key: "b"})
	must.OK(t, err)
	for what, err := range map[string]error{
		"Table.Do":    table.Do(ctx, nil, "", nil),
		"Table.Raise": table.Raise(ctx, nil, ""),
		"Row.Raise":   row.Raise(ctx, nil, "", 1),
		"Row.Update":  row.Update(ctx, nil, "", 1, "v = 1"),
	} {
		if !errors.Is(err, fence.ErrWrongLock) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// TestRefusalNamesNoOlderMarkAsTheNewer: a transaction may read an older state than the one
// that its write met.
func TestRefusalNamesNoOlderMarkAsTheNewer(t *testing.T) {
	given := fence.Mark{Lock: "a", Token: 768, Holder: "ann"}
	for token, want := range map[fencelock.Token]fencelock.Token{512: 0, 768: 0, 769: 769} {
		var stale *fence.StaleError
		err := refusal(fence.Mark{Lock: "a", Token: token, Holder: "bob"}, given)
		if !errors.As(err, &stale) || stale.Given != given || stale.Newer.Token != want {
			t.Errorf("read token %d: got %v", token, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
