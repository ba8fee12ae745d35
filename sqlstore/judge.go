// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"fmt"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// clockBound is how far the clocks may be apart. While a server keeps the tables nothing
// depends on it. At a failover two things do: tokens are seeded from the clock of the server
// that takes over, and without grace sessions end early by as much as it is ahead.
const clockBound = 2 * time.Second

type adder func(severity driver.Severity, code, reason, fix string)

// judge says what the facts mean. It does no I/O.
func judge(f facts) []driver.Finding {
	var all []driver.Finding
	add := func(severity driver.Severity, code, reason, fix string) {
		all = append(all, driver.Finding{Severity: severity, Code: code, Reason: reason, Fix: fix})
	}
	if f.dialect == PostgreSQL {
		judgePostgres(&f, add)
	} else {
		judgeMySQL(&f, add)
	}
	judgeTables(&f, add)
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
	if f.values["recovery"] == "true" {
		add(driver.Danger, "replica", "it is a replica and grants nothing", "connect to the primary: target_session_attrs=read-write with all hosts in the URL")
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
		add(driver.Warning, "replicas-without-grace", fmt.Sprintf("it has %d asynchronous replicas, and the tables no grace: a failover to one that lags makes two holders at a time, told apart by their tokens alone", n),
			"set synchronous_standby_names, or Options{Grace: true}, or check tokens at the resource")
	}
	if f.deaf && !f.pooled {
		add(driver.Note, "deaf", fmt.Sprintf("a notification did not arrive within %v: those who wait poll, and it is tried again every %v", helloWait, deafFor),
			"look for a pooler in transaction mode, and set Options.Pooler if there is one")
	}
	if f.pooled {
		add(driver.Note, "pooler", "a pooler gives statements to other connections: those who wait poll", "give the store a direct connection for quicker hand-overs, or leave it")
	}
}

func judgeMySQL(f *facts, add adder) {
	version := f.values["version"]
	var major, minor, patch int
	fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch)
	old := major*10000+minor*100+patch < 80021
	if strings.Contains(version, "MariaDB") {
		old = major*100+minor < 1006
	}
	if old {
		add(driver.Danger, "version", "version "+version+" is older than MySQL 8.0.21 or MariaDB 10.6", "upgrade the server")
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
		add(driver.Danger, "binlog-format", "binlog_format is STATEMENT: replicas do not get the grants, and after a failover everything is forgotten", "binlog_format = ROW, or MIXED")
	}
	if f.values["log_bin"] == "ON" && !f.grace {
		add(driver.Note, "replicas-without-grace", "it writes a binary log: if a replica that lags takes over there may be two holders at a time, told apart by their tokens alone",
			"use semi-synchronous replication, or Options{Grace: true}, or check tokens at the resource")
	}
	if v := f.values["read_only"]; v != "OFF" && v != "0" && v != "" {
		add(driver.Danger, "replica", "it is read-only and grants nothing", "connect to the primary")
	}
	if f.values["wsrep_on"] == "ON" {
		add(driver.Danger, "multi-primary", "it is part of a Galera cluster: two nodes may grant the same lock before one of them is refused, and each looks like another server",
			"use a single primary, or another engine")
	}
}

func judgeTables(f *facts, add adder) {
	for _, table := range []string{"incarnation", "session", "lock"} {
		state, known := f.values["table "+table]
		switch {
		case !known || state == "missing":
			add(driver.Danger, "tables", "the table "+table+" is missing, or this role may not see it", "run sqlstore.Migrate, or apply sqlstore.Schema; Store.Grants prints the permissions")
		case state == "unlogged":
			add(driver.Danger, "unlogged", "the table "+table+" is not logged: a crash empties it", "ALTER TABLE ... SET LOGGED")
		case state == "forbidden":
			add(driver.Danger, "permissions", "this role lacks permissions on the table "+table, "apply what Store.Grants prints")
		case state != "ok":
			add(driver.Danger, "table-engine", "the table "+table+" has the engine "+state+", which knows no transactions", "ALTER TABLE ... ENGINE = InnoDB")
		}
	}
}
