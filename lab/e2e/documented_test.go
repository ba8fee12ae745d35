// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/fence/sqlfence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// tablesOfThePages are what the statements in the documents are about, beside the tables of the library.
const tablesOfThePages = `
CREATE TABLE items (id INT PRIMARY KEY, stock INT);
CREATE TABLE orders (id INT PRIMARY KEY, state TEXT, version INT);
CREATE TABLE processed (message_id TEXT PRIMARY KEY, result TEXT);
CREATE TABLE jobs (id INT PRIMARY KEY, payload TEXT, state TEXT);
CREATE TABLE accounts (id INT PRIMARY KEY, balance INT, fence BIGINT);
`

// TestDocumentedSQL executes every block of SQL in the documents, on PostgreSQL. A statement that names a column that
// does not exist any more, or does not parse, fails.
func TestDocumentedSQL(t *testing.T) {
	e := need(t, postgres)
	ctx := t.Context()
	conn, err := e.db.Conn(ctx) // one, because of the search path
	must.OK(t, err)
	defer func() {
		for _, statement := range []string{"DROP SCHEMA documented CASCADE", "RESET search_path"} { // other tests get the connection
			_, err := conn.ExecContext(ctx, statement)
			must.OK(t, err)
		}
		must.OK(t, conn.Close())
	}()
	guard, err := sqlfence.NewTable(sqlfence.PostgreSQL, nil)
	must.OK(t, err)
	for _, statement := range []string{"CREATE SCHEMA documented", "SET search_path TO documented", tablesOfThePages, guard.Schema(), sqlstore.Schema(sqlstore.PostgreSQL, "")} {
		_, err := conn.ExecContext(ctx, statement)
		must.OK(t, err)
	}
	pages, err := filepath.Glob(filepath.Join("../../docs", "*.md"))
	must.OK(t, err)
	chinese, err := filepath.Glob(filepath.Join("../../docs/zh-CN", "*.md"))
	must.OK(t, err)
	block := regexp.MustCompile("(?s)\n```sql\n(.*?)```")
	seen := 0
	for _, page := range append(pages, chinese...) {
		text, err := os.ReadFile(page)
		must.OK(t, err)
		for _, b := range block.FindAllStringSubmatch(string(text), -1) {
			seen++
			if _, err := conn.ExecContext(ctx, strings.ReplaceAll(b[1], "TOKEN", "512")); err != nil {
				t.Errorf("%s: %v in\n%s", page, err, b[1])
			}
		}
	}
	if seen < 9 {
		t.Errorf("only %d blocks of SQL were found", seen)
	}
}
