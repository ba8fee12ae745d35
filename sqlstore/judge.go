// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"fmt"
	"strings"
	"time"
)

// clockBound is how far the clocks may be apart. No lease depends on it; tokens after a
// failover are seeded from the server's clock.
const clockBound = 2 * time.Second

type adder func(severity Severity, code, reason, fix string)

// judge says what the facts mean. It does no I/O.
func judge(f facts) []Finding {
	var all []Finding
	add := func(severity Severity, code, reason, fix string) {
		all = append(all, Finding{severity, code, reason, fix})
	}
	if f.dialect == PostgreSQL {
		judgePostgres(&f, add)
	} else {
		judgeMySQL(&f, add)
	}
	judgeTables(&f, add)
	if off := f.ahead.Abs() - f.trip/2; off > clockBound {
		add(Warning, "clock", fmt.Sprintf("the server's clock is %v away from ours; after a failover tokens are seeded from it, and a clock that is set back would make them fall",
			f.ahead.Abs().Round(time.Millisecond)), "run a time service (chrony, systemd-timesyncd) on both machines")
	}
	return all
}

func judgePostgres(f *facts, add adder) {
	if v := f.number("server_version_num"); v < 130000 {
		add(Danger, "version", fmt.Sprintf("server version %d is older than 13", v), "upgrade the server")
	}
	if f.values["recovery"] == "true" {
		add(Danger, "replica", "it is a replica and grants nothing", "connect to the primary: target_session_attrs=read-write with all hosts in the URL")
	}
	if f.values["fsync"] == "off" {
		add(Danger, "fsync", "fsync is off: a crash of the machine may lose grants, and nothing would notice", "fsync = on in postgresql.conf")
	}
	switch f.values["synchronous_commit"] {
	case "off":
		add(Danger, "synchronous-commit", "synchronous_commit is off for this role: a crash may lose the last grants, and nothing would notice", "ALTER ROLE ... SET synchronous_commit = on")
	case "local":
		if f.values["synchronous_standby_names"] != "" {
			add(Warning, "synchronous-commit", "synchronous_commit is local: a failover may lose grants that were acknowledged, although there is a synchronous standby", "ALTER ROLE ... SET synchronous_commit = on")
		}
	}
	if f.values["full_page_writes"] == "off" {
		add(Warning, "full-page-writes", "full_page_writes is off: a crash may damage the tables, unless the disk writes whole pages at once", "full_page_writes = on in postgresql.conf")
	}
	if n := f.number("replicas"); n > 0 && f.values["synchronous_standby_names"] == "" && !f.grace {
		add(Warning, "replicas-without-grace", fmt.Sprintf("it has %d asynchronous replicas, and the tables no grace: a failover to one that lags makes two holders at a time, told apart by their tokens alone", n),
			"set synchronous_standby_names, or Options{Grace: true}, or check tokens at the resource")
	}
	if f.pooled {
		add(Note, "pooler", "a pooler gives statements to other connections: those who wait poll", "give the store a direct connection for quicker hand-overs, or leave it")
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
		add(Danger, "version", "version "+version+" is older than MySQL 8.0.21 or MariaDB 10.6", "upgrade the server")
	}
	if v := f.values["innodb_flush_log_at_trx_commit"]; v != "1" {
		add(Danger, "flush-log", "innodb_flush_log_at_trx_commit is "+v+": a crash may lose the last grants, and nothing would notice", "innodb_flush_log_at_trx_commit = 1")
	}
	if f.values["log_bin"] == "ON" && f.values["sync_binlog"] != "1" {
		add(Warning, "sync-binlog", "sync_binlog is "+f.values["sync_binlog"]+": after a crash replicas may not have the last grants", "sync_binlog = 1")
	}
	if f.values["log_bin"] == "ON" && !f.grace {
		add(Note, "replicas-without-grace", "it writes a binary log: if a replica that lags takes over there may be two holders at a time, told apart by their tokens alone",
			"use semi-synchronous replication, or Options{Grace: true}, or check tokens at the resource")
	}
	if v := f.values["read_only"]; v != "OFF" && v != "0" && v != "" {
		add(Danger, "replica", "it is read-only and grants nothing", "connect to the primary")
	}
	if f.values["wsrep_on"] == "ON" {
		add(Danger, "multi-primary", "it is part of a Galera cluster: two nodes may grant the same lock before one of them is refused, and each looks like another server",
			"use a single primary, or another engine")
	}
}

func judgeTables(f *facts, add adder) {
	for _, table := range []string{"incarnation", "session", "lock"} {
		state, known := f.values["table "+table]
		switch {
		case !known || state == "missing":
			add(Danger, "tables", "the table "+table+" is missing, or this role may not see it", "run sqlstore.Migrate, or apply sqlstore.Schema; Store.Grants prints the permissions")
		case state == "unlogged":
			add(Danger, "unlogged", "the table "+table+" is not logged: a crash empties it", "ALTER TABLE ... SET LOGGED")
		case state == "forbidden":
			add(Danger, "permissions", "this role lacks permissions on the table "+table, "apply what Store.Grants prints")
		case state != "ok":
			add(Danger, "table-engine", "the table "+table+" has the engine "+state+", which knows no transactions", "ALTER TABLE ... ENGINE = InnoDB")
		}
	}
}
