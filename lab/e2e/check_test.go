// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/sqlfence"
	"github.com/fencelock/fencelock/internal/must"
)

// TestRowCheckNamesColumnsThatDoNotKeepTokens: with these types an older token may
// be admitted, or every token is an error.
func TestRowCheckNamesColumnsThatDoNotKeepTokens(t *testing.T) {
	types := map[sqlfence.Dialect]map[string]bool{
		sqlfence.PostgreSQL: {"bigint": true, "int": false, "real": false, "double precision": false, "text": false, "smallint": false},
		sqlfence.MySQL:      {"BIGINT": true, "BIGINT UNSIGNED": true, "INT": false, "FLOAT": false, "DOUBLE": false, "VARCHAR(30)": false},
	}
	each(t, func(t *testing.T, e *database) {
		schema := map[sqlfence.Dialect]string{sqlfence.PostgreSQL: "public", sqlfence.MySQL: "test"}[e.dialect]
		n := 0
		for kind, good := range types[e.dialect] {
			n++
			table := fmt.Sprintf("typed%d", n)
			if _, err := e.db.Exec("CREATE TABLE " + table + " (id INT PRIMARY KEY, fence " + kind + ")"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _, _ = e.db.Exec("DROP TABLE " + table) })
			for _, name := range []string{table, schema + "." + table} {
				row, err := sqlfence.NewRow(e.dialect, &sqlfence.RowOptions{Table: name, Key: "id"})
				must.OK(t, err)
				err = row.Check(t.Context(), e.db)
				if good != (err == nil) || !good && !strings.Contains(err.Error(), "must be BIGINT") {
					t.Errorf("%s in %s: got %v", kind, name, err)
				}
			}
		}
		for option, o := range map[string]sqlfence.RowOptions{
			"no such table":  {Table: "nowhere", Key: "id"},
			"no such column": {Table: "guarded", Key: "id", Fence: "nothing"},
		} {
			row, err := sqlfence.NewRow(e.dialect, &o)
			must.OK(t, err)
			if err := row.Check(t.Context(), e.db); err == nil {
				t.Errorf("%s: no error", option)
			}
		}
	})
}

// TestRowKeyMustBeUnique: several rows under one key have several fences. A call
// that changes some of them and not others must not be reported as done.
func TestRowKeyMustBeUnique(t *testing.T) {
	each(t, func(t *testing.T, e *database) {
		statements := []string{
			"CREATE TABLE parts (id INT, part INT, alone INT UNIQUE, v VARCHAR(20), fence BIGINT, PRIMARY KEY (id, part))",
			"INSERT INTO parts VALUES (1, 1, 1, '', 100), (1, 2, 2, '', 200)",
		}
		for _, s := range statements {
			if _, err := e.db.Exec(s); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { _, _ = e.db.Exec("DROP TABLE parts") })
		for key, good := range map[string]bool{"id": false, "part": false, "v": false, "alone": true} {
			row, err := sqlfence.NewRow(e.dialect, &sqlfence.RowOptions{Table: "parts", Key: key})
			must.OK(t, err)
			err = row.Check(t.Context(), e.db)
			if good != (err == nil) || !good && !strings.Contains(err.Error(), "must be unique") {
				t.Errorf("the key %s: got %v", key, err)
			}
		}
		row, err := sqlfence.NewRow(e.dialect, &sqlfence.RowOptions{Table: "parts", Key: "id"})
		must.OK(t, err)
		err = row.Update(holding(t, "parts", 512, ""), e.db, "parts", 1, "v = 'x'")
		if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "2 rows of parts have id = 1") {
			t.Errorf("an update of two rows: got %v", err)
		}
	})
}
