// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// clockBound is how far the clocks may be apart. While a server keeps the tables nothing
// depends on it. At a failover two things do: tokens are seeded from the clock of the server
// that takes over, and without grace sessions end early by as much as it is ahead.
const clockBound = 2 * time.Second

// codes are the codes of all findings. They are stable.
var codes = []string{
	"autocommit", "binlog-format", "clock", "flush-log", "fsync", "full-page-writes", "grace-not-asked", "handoff-locks", "identity", "isolation",
	"multi-primary", "notifications", "notify-queue", "old-snapshot", "permissions", "pooler", "read-only", "replica", "replicas-without-grace", "select-limit", "sync-binlog",
	"synchronous-commit", "table-engine", "tables", "unlogged", "version",
}

type adder func(severity driver.Severity, code, reason, fix string)

// judge returns what the facts mean. It does no I/O.
func judge(f facts) []driver.Finding {
	var all []driver.Finding
	add := func(severity driver.Severity, code, reason, fix string) {
		all = append(all, driver.Finding{Severity: severity, Code: code, Reason: reason, Fix: fix})
	}
	if n, known := f.values["sql_select_limit"]; known && f.number("sql_select_limit") < manyAtOnce && len(n) < 10 {
		add(driver.Danger, "select-limit", "sql_select_limit is "+n+" on this connection: answers are cut short, so the settings of the server cannot be read",
			"add sql_select_limit=18446744073709551615 to the data source name")
		return all
	}
	if f.dialect == PostgreSQL {
		judgePostgres(&f, add)
	} else {
		judgeMySQL(&f, add)
	}
	judgeTables(&f, add)
	if f.unasked {
		add(driver.Warning, "grace-not-asked", fmt.Sprintf("the tables %s* have grace, and this process does not ask for it: if it is the first to come after the server has lost everything, there is no grace period", f.prefix),
			"add grace=true to the URL (Options{Grace: true})")
	}
	if off := f.ahead.Abs() - f.trip/2; off > clockBound {
		add(driver.Warning, "clock", fmt.Sprintf("the server's clock is %v away from ours; if servers differ so at a failover, tokens fall (the new one is behind), or sessions end early (it is ahead, and there is no grace)",
			f.ahead.Abs().Round(time.Millisecond)), "run a time service (chrony, systemd-timesyncd) on all machines")
	}
	return all
}

func judgePostgres(f *facts, add adder) {
	if v := f.number("server_version_num"); v < 130000 {
		add(driver.Danger, "version", fmt.Sprintf("server version %d is older than 13", v), "upgrade the server")
	}
	if f.missing != "" {
		reason, fix, _ := strings.Cut(noIdentity(f.missing), "; ")
		add(driver.Danger, "identity", reason, fix)
	}
	if f.values["set_config"] == "false" {
		add(driver.Danger, "permissions", "the role may not use set_config: no caller can wait for a lock, and an unlock waits for the next keep-alive", "the owner of the database runs: "+grantSetConfig)
	}
	if f.values["recovery"] == "true" {
		add(driver.Danger, "replica", "it is a replica and grants nothing", "connect to the primary: target_session_attrs=read-write with all hosts in the URL")
	}
	if f.values["default_transaction_read_only"] == "on" {
		add(driver.Danger, "read-only", "default_transaction_read_only is on for this role: nothing can be locked", "ALTER ROLE ... SET default_transaction_read_only = off")
	}
	if f.values["fsync"] == "off" {
		add(driver.Danger, "fsync", "fsync is off: a crash of the machine may lose grants, and nothing would notice", "fsync = on in postgresql.conf")
	}
	switch f.values["synchronous_commit"] {
	case "off":
		add(driver.Danger, "synchronous-commit", "synchronous_commit is off for this role: a crash may lose the last grants, and nothing would notice", "ALTER ROLE ... SET synchronous_commit = on")
	case "local":
		if f.values["synchronous_standby_names"] != "" {
			add(driver.Warning, "synchronous-commit", "synchronous_commit is local: a failover may lose grants that were acknowledged, although there is a synchronous standby", "ALTER ROLE ... SET synchronous_commit = on")
		}
	}
	if f.values["full_page_writes"] == "off" {
		add(driver.Warning, "full-page-writes", "full_page_writes is off: a crash may damage the tables, unless the disk writes whole pages at once", "full_page_writes = on in postgresql.conf")
	}
	if n := f.number("replicas"); n > 0 && f.values["synchronous_standby_names"] == "" && !f.grace {
		add(driver.Warning, "replicas-without-grace", fmt.Sprintf("it has %d asynchronous replicas, and the tables have no grace: a failover to a replica that lags can make two holders at once, and only their tokens differ", n),
			"set synchronous_standby_names, or add grace=true to the URL (Options{Grace: true}), or check tokens at the resource")
	}
	judgeSnapshots(f, add)
	if n := f.number("notify_queue"); n > 50 {
		add(driver.Warning, "notify-queue", fmt.Sprintf("the server's queue of notifications is %d %% full; when it is full a waiter finds its grant late, up to a TTL", n),
			"end the connection that listens and stays in a transaction; the server's log names its process, and pg_stat_activity shows it by xact_start")
	}
	if f.silent && !f.pooled {
		add(driver.Note, "notifications", fmt.Sprintf("a notification did not arrive within %v: waiters poll, and it is tried again every %v", helloWait, silentFor),
			"check for a pooler in transaction mode, and connect to the database directly, or leave it (Options.Pooler)")
	}
	if f.pooled {
		add(driver.Note, "pooler", "a pooler gives statements to other connections: waiters poll", "give the store a direct connection for quicker handoffs, or leave it")
	}
}

// An old snapshot keeps the versions of rows that were changed since. One of a lock that is used all the
// time has thousands of them within minutes, and each statement reads them all.
const (
	oldSnapshot    = 5 * time.Minute
	oldSnapshotAge = 200_000 // transactions, where the time is not known
)

func judgeSnapshots(f *facts, add adder) {
	seconds, age := time.Duration(f.number("snapshot_seconds"))*time.Second, f.number("snapshot_age")
	since := ""
	switch {
	case seconds > oldSnapshot:
		since = seconds.String()
	case age > oldSnapshotAge:
		since = fmt.Sprintf("%d transactions", age)
	default:
		return
	}
	add(driver.Warning, "old-snapshot", "a transaction, a replica or a replication slot has had a snapshot for "+since+": a lock that is used often gets slower until it ends",
		"end long transactions (xact_start in pg_stat_activity; idle_in_transaction_session_timeout does it), and drop slots without a consumer (xmin in pg_replication_slots)")
}

func judgeMySQL(f *facts, add adder) {
	version := f.values["version"]
	var major, minor, patch int
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch)
	old := major*10000+minor*100+patch < 80021
	if strings.Contains(version, "MariaDB") {
		old = major*100+minor < 1006
	}
	if old {
		add(driver.Danger, "version", "version "+version+" is older than MySQL 8.0.21 or MariaDB 10.6", "upgrade the server")
	}
	if f.values["autocommit"] == "OFF" {
		add(driver.Danger, "autocommit", "autocommit is off on this connection: nothing that the store writes is committed", "add autocommit=1 to the data source name")
	}
	if f.values["transaction_read_only"] == "ON" || f.values["tx_read_only"] == "ON" {
		add(driver.Danger, "read-only", "the transactions of this connection are read-only: nothing can be locked", "SET GLOBAL TRANSACTION READ WRITE, and remove the setting from the data source name")
	}
	if v := f.values["innodb_flush_log_at_trx_commit"]; v != "1" {
		add(driver.Danger, "flush-log", "innodb_flush_log_at_trx_commit is "+v+": a crash may lose the last grants, and nothing would notice", "innodb_flush_log_at_trx_commit = 1")
	}
	if f.values["log_bin"] == "ON" && f.values["sync_binlog"] != "1" {
		add(driver.Warning, "sync-binlog", "sync_binlog is "+f.values["sync_binlog"]+": after a crash replicas may not have the last grants", "sync_binlog = 1")
	}
	if f.values["log_bin"] == "ON" && f.values["binlog_format"] == "STATEMENT" {
		// A replica would run our statements itself. Each compares the identity of the
		// server that runs it, so none would change a row there.
		add(driver.Danger, "binlog-format", "binlog_format is STATEMENT: replicas do not get the grants, and a failover loses all locks", "binlog_format = ROW, or MIXED")
	}
	if f.values["log_bin"] == "ON" && !f.grace {
		add(driver.Note, "replicas-without-grace", "it writes a binary log: if a replica that lags takes over there may be two holders at once, and only their tokens differ",
			"use semi-synchronous replication, or add grace=true to the URL (Options{Grace: true}), or check tokens at the resource")
	}
	if v := f.values["read_only"]; v != "OFF" && v != "0" && v != "" {
		add(driver.Danger, "replica", "it is read-only and grants nothing", "connect to the primary")
	}
	if f.values["wsrep_on"] == "ON" {
		add(driver.Danger, "multi-primary", "it is part of a Galera cluster: two nodes may grant the same lock before one of them is refused, and each has the identity of another server",
			"use a single primary, or another database")
	}
	if f.values["group_replication_single_primary_mode"] == "OFF" {
		add(driver.Danger, "multi-primary", "group_replication_single_primary_mode is OFF: two members may grant the same lock before one of them is refused, and each has the identity of another server",
			"group_replication_single_primary_mode = ON, or use another database")
	}
	if f.noHandoffLocks {
		add(driver.Note, "handoff-locks", "no dedicated connection could wait for a named lock (GET_LOCK): waiters poll, which costs the server more",
			"allow more connections (max_connections, SetMaxOpenConns), connect directly if a proxy shares connections, or leave it")
	}
	judgeIsolation(f, add)
}

// judgeIsolation checks the isolation of this connection. MariaDB has its variable under
// the old name until 11.1, MySQL has only the new one.
func judgeIsolation(f *facts, add adder) {
	name := "transaction_isolation"
	level, known := f.values[name]
	if !known {
		name = "tx_isolation"
		level, known = f.values[name]
	}
	if known && level != "READ-COMMITTED" {
		add(driver.Warning, "isolation", name+" is "+level+": a statement that waits for a row holds what it has read, so one row that another transaction keeps locked can end every lease",
			"add "+name+"=%27READ-COMMITTED%27&innodb_lock_wait_timeout=1 to the data source name, or set it in the server")
	}
}

func judgeTables(f *facts, add adder) {
	tables := []string{"incarnation", "session", "lock"}
	missing := slices.DeleteFunc(slices.Clone(tables), func(table string) bool {
		state, known := f.values["table "+table]
		return known && state != "missing"
	})
	if len(missing) > 0 {
		add(driver.Danger, "tables", fmt.Sprintf("the tables %s with the prefix %s are missing, or this role may not see them", strings.Join(missing, ", "), f.prefix),
			"add migrate=true to the URL to create them, or apply what fencelock schema prints (in Go: sqlstore.Migrate, or apply what sqlstore.Schema returns)")
	}
	var forbidden []string
	for _, table := range tables {
		switch state := f.values["table "+table]; state {
		case "unlogged":
			add(driver.Danger, "unlogged", "the table "+table+" is not logged: a crash empties it", "ALTER TABLE ... SET LOGGED")
		case "forbidden":
			forbidden = append(forbidden, table)
		case "", "missing", "ok":
		default:
			add(driver.Danger, "table-engine", "the table "+table+" is stored by "+state+", which has no transactions", "ALTER TABLE ... ENGINE = InnoDB")
		}
	}
	if len(forbidden) > 0 {
		add(driver.Danger, "permissions", "the role lacks permissions on the tables "+strings.Join(forbidden, ", ")+": nothing can be locked", "the owner of the tables runs: "+f.grants)
	}
}
