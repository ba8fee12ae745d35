// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Check asks the database whether it is fit to keep locks, and returns what is not, with
// the setting to change; an empty result is a good one. It writes nothing, and needs no
// more permissions than the store does. The error means that the database could not be
// asked.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) {
	f := facts{values: map[string]string{}, dialect: s.dialect, grace: s.opts.Grace, pooled: s.pooled.Load(), silent: s.listener.isSilent(), noHandoffLocks: s.handoffLocks.off(),
		prefix: s.opts.prefix(), grants: s.grantsText()}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	sent := time.Now()
	var now int64
	err := s.run(ctx, "check", func() error {
		return s.db.QueryRowContext(ctx, "SELECT "+clocks[s.dialect], s.args(nil)...).Scan(&now)
	})
	if err != nil {
		return nil, err
	}
	f.trip = time.Since(sent)
	f.ahead = time.UnixMicro(now).Sub(sent.Add(f.trip / 2))
	texts := mysqlFacts
	if s.dialect == PostgreSQL {
		texts = postgresFacts
		var who string
		f.missing = missingFunction(s.run(ctx, "check", func() error {
			return s.db.QueryRowContext(ctx, "SELECT "+pgIdentity, s.args(nil)...).Scan(&who)
		}))
	}
	for _, text := range texts {
		text = strings.NewReplacer("{p}", s.opts.prefix(), "{schema}", s.schemaName(), "{tables}", s.tableNames(), "{bare}", channelPrefix(s.opts.prefix())).Replace(text)
		err := s.rows(ctx, "check", text, nil, func() {}, func(r *sql.Rows) error {
			var name, value sql.NullString
			err := r.Scan(&name, &value)
			f.values[strings.ToLower(name.String)] = value.String
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if f.values["table incarnation"] == "ok" {
		var m incarnation
		if err := s.row(ctx, "incarnation", nil, m.fields()); err == nil && m.layout == layout {
			f.unasked = m.rules.grace == 1 && !s.opts.Grace
			f.grace = f.grace || m.rules.grace == 1
		}
	}
	return judge(f), nil
}

// postgresFacts return names and values.
var postgresFacts = []string{
	`SELECT name, setting FROM pg_settings WHERE name IN ('server_version_num', 'fsync', 'synchronous_commit', 'full_page_writes', 'synchronous_standby_names', 'default_transaction_read_only')`,
	`SELECT 'recovery', pg_is_in_recovery()::text`,
	`SELECT 'set_config', has_function_privilege('pg_catalog.set_config(text, text, boolean)', 'EXECUTE')::text`,
	`SELECT 'notify_queue', round(100 * pg_notification_queue_usage())::text`,
	`SELECT 'replicas', count(*)::text FROM pg_stat_replication`,
	// Of other roles a role may see less; then the number of transactions since is all there is.
	`SELECT 'snapshot_seconds', COALESCE(max(extract(epoch from now() - xact_start)), 0)::bigint::text FROM pg_stat_activity
	 WHERE backend_type = 'client backend' AND datname = current_database() AND backend_xmin IS NOT NULL`,
	`SELECT 'snapshot_age', COALESCE(max(x), 0)::text FROM (
	   SELECT age(xmin) x FROM pg_replication_slots WHERE xmin IS NOT NULL
	   UNION ALL SELECT age(backend_xmin) FROM pg_stat_activity WHERE xact_start IS NULL AND backend_xmin IS NOT NULL AND COALESCE(datname, current_database()) = current_database()) a`,
	`SELECT 'table ' || t, CASE WHEN to_regclass('{p}' || t) IS NULL THEN 'missing'
	   WHEN (SELECT relpersistence FROM pg_class WHERE oid = to_regclass('{p}' || t)) <> 'p' THEN 'unlogged'
	   WHEN NOT has_table_privilege('{p}' || t, 'SELECT') OR NOT has_table_privilege('{p}' || t, 'INSERT') OR NOT has_table_privilege('{p}' || t, 'UPDATE')
	     OR t <> 'incarnation' AND NOT has_table_privilege('{p}' || t, 'DELETE') THEN 'forbidden' ELSE 'ok' END
	 FROM unnest(ARRAY['incarnation', 'session', 'lock']) t`,
}

var mysqlFacts = []string{
	`SELECT 'sql_select_limit', @@sql_select_limit`,
	`SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'read_only', 'wsrep_on', 'group_replication_single_primary_mode')`,
	`SHOW SESSION VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation', 'autocommit', 'binlog_format', 'transaction_read_only', 'tx_read_only')`,
	`SELECT CONCAT('table ', SUBSTRING(TABLE_NAME, CHAR_LENGTH('{bare}') + 1)), REPLACE(ENGINE, 'InnoDB', 'ok')
	 FROM information_schema.TABLES WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME IN ({tables}) LIMIT 3`,
}

// schemaName is where MySQL has the tables, as an expression.
func (s *Store) schemaName() string {
	if schema, _, ok := strings.Cut(s.opts.prefix(), "."); ok {
		return "'" + schema + "'"
	}
	return "DATABASE()"
}

func (s *Store) tableNames() string {
	p := channelPrefix(s.opts.prefix())
	return "'" + p + "incarnation', '" + p + "session', '" + p + "lock'"
}

// facts is what the database answered, for judge.
type facts struct {
	dialect               Dialect
	grace, pooled, silent bool
	unasked               bool // the tables have grace, and this process does not ask for it
	noHandoffLocks        bool // no dedicated connection was to be had for a claim that waits
	values                map[string]string
	prefix, grants        string // of the tables, and what a role needs on them
	missing               string // function without which the server cannot say who it is
	// ahead is how far the server's clock is ahead of ours, give or take half of trip.
	ahead, trip time.Duration
}

func (f *facts) number(name string) int {
	n, _ := strconv.Atoi(f.values[name])
	return n
}

// neverAccepted are findings with which no lock can be acquired: accepting them does not help.
var neverAccepted = []string{"tables", "permissions", "replica", "identity", "autocommit", "read-only"}

// fit checks the database in Open, and before the first session of a store that FromURL made, until
// it was found fit once. A database on which locks are unsafe is refused.
func (s *Store) fit(ctx context.Context) error {
	if !s.closeDB || s.fitted.Load() {
		return nil
	}
	found, err := s.Check(ctx)
	if err != nil {
		return err
	}
	if err := s.gate.Judge(found); err != nil {
		return err
	}
	s.fitted.Store(true)
	return nil
}
