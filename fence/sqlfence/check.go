// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// Check reads from the catalog of the database whether the columns suit the guard,
// and returns an error that names the column if they do not. Call it when the
// program starts, or in a test of your schema.
//
// The fence must be a BIGINT: a smaller integer in a MySQL without strict mode,
// and a floating point number in any database, keep another number than the
// token, and then an older token is admitted without an error. The key must have
// a unique index: Update changes all rows that it finds under a key and have no
// newer token, and cannot report those that it left alone.
func (r *Row) Check(ctx context.Context, db Querier) error {
	return r.CheckOn(ctx, standard{db})
}

// CheckOn is Check for another library than database/sql.
func (r *Row) CheckOn(ctx context.Context, db Database) error {
	kind, err := r.kind(ctx, db)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("sqlfence: %s has no column %s, or this user may not see it: %w", r.o.Table, r.o.Fence, err)
	case err != nil:
		return fmt.Errorf("sqlfence: read the type of %s.%s: %w", r.o.Table, r.o.Fence, err)
	case !strings.EqualFold(kind, "bigint"):
		return fmt.Errorf("sqlfence: the column %s.%s is %s; it must be BIGINT: other types do not keep every token, and admit older ones",
			r.o.Table, r.o.Fence, kind)
	}
	var unique bool
	if err := db.QueryRow(ctx, r.uniqueQuery(), r.catalogArgs(r.o.Key)...).Scan(&unique); err != nil {
		return fmt.Errorf("sqlfence: read the indexes of %s: %w", r.o.Table, err)
	}
	if !unique {
		return fmt.Errorf("sqlfence: the column %s.%s has no unique index on it alone; RowOptions.Key must be unique", r.o.Table, r.o.Key)
	}
	return nil
}

// kind returns the type of the fence.
func (r *Row) kind(ctx context.Context, db Database) (kind string, err error) {
	query := "SELECT data_type FROM information_schema.columns" +
		" WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND table_name = ? AND column_name = ?"
	if r.dialect == PostgreSQL { // names are folded and looked up as in a statement
		query = "SELECT format_type(atttypid, NULL) FROM pg_attribute" +
			" WHERE attrelid = CAST($1 AS regclass) AND attname = lower($2) AND attnum > 0 AND NOT attisdropped"
	}
	err = db.QueryRow(ctx, query, r.catalogArgs(r.o.Fence)...).Scan(&kind)
	return kind, err
}

// uniqueQuery reads whether a unique index covers one column alone, for all rows.
func (r *Row) uniqueQuery() string {
	if r.dialect == PostgreSQL {
		return "SELECT EXISTS (SELECT 1 FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]" +
			" WHERE i.indrelid = CAST($1 AS regclass) AND a.attname = lower($2)" +
			" AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1 AND i.indpred IS NULL)"
	}
	return "SELECT COUNT(*) > 0 FROM (SELECT index_name FROM information_schema.statistics" +
		" WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND table_name = ? AND non_unique = 0" +
		" GROUP BY index_name HAVING COUNT(*) = 1 AND MAX(column_name) = ? AND MAX(sub_part) IS NULL) AS alone"
}

// catalogArgs are the arguments of both queries.
func (r *Row) catalogArgs(column string) []any {
	if r.dialect == PostgreSQL {
		return []any{r.o.Table, column}
	}
	schema, table, found := strings.Cut(r.o.Table, ".")
	if !found {
		schema, table = "", r.o.Table
	}
	return []any{schema, table, column}
}
