// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"database/sql"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// TestCheckFindsOldSnapshots: a transaction that keeps a snapshot is found by its age. The view here
// makes it an hour older than it is.
func TestCheckFindsOldSnapshots(t *testing.T) {
	t.Parallel()
	k := onPostgres
	server := need(t, k.start)
	db := k.connect(t, server.Port)
	opts := k.space(t, db)
	must.OK(t, exec(db, "CREATE SCHEMA old_snapshots"))
	must.OK(t, exec(db, `CREATE VIEW old_snapshots.pg_stat_activity AS
		SELECT backend_type, datname, backend_xmin, xact_start - interval '1 hour' AS xact_start FROM pg_catalog.pg_stat_activity WHERE application_name = 'old_snapshots'`))
	k.source = func(port int) string { return pgSource(port) + "&search_path=old_snapshots,pg_catalog,public" }
	s := k.store(t, k.connect(t, server.Port), &opts)
	found := func(s *sqlstore.Store) bool {
		findings, err := s.Check(ctxb)
		must.OK(t, err)
		return has(findings, "old-snapshot")
	}
	if found(s) {
		t.Error("found without a snapshot")
	}
	dump, err := sql.Open("pgx", pgSource(server.Port)+"&application_name=old_snapshots")
	must.OK(t, err)
	t.Cleanup(func() { dump.Close() })
	tx, err := dump.BeginTx(ctxb, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	must.OK(t, err)
	defer tx.Rollback()
	var one int
	must.OK(t, tx.QueryRow("SELECT 1").Scan(&one))
	if !found(s) {
		t.Error("the snapshot is not found")
	}
}
