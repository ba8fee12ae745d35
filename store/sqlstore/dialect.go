// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	_ "embed" // the statements
	"fmt"
	"strconv"
	"strings"

	"github.com/fencelock/fencelock/store/sqlstore/internal/lockrow"
)

// Dialect is the SQL dialect of a database.
type Dialect uint8

const (
	// Auto asks the driver: pgx and lib/pq speak PostgreSQL, go-sql-driver MySQL.
	Auto Dialect = iota
	// PostgreSQL, version 13 or later.
	PostgreSQL
	// MySQL is MySQL 8.0.21 or later, and MariaDB 10.6 or later.
	MySQL
)

// String returns the name in lower case.
func (d Dialect) String() string {
	names := [...]string{"auto", "postgres", "mysql"}
	if int(d) < len(names) {
		return names[d]
	}
	return fmt.Sprintf("dialect(%d)", uint8(d))
}

//go:embed statements/both.sql
var bothText string

//go:embed statements/postgres.sql
var postgresText string

//go:embed statements/mysql.sql
var mysqlText string

// pgIdentity is who a PostgreSQL server is: the cluster that initdb made, and the
// timeline, which changes when a replica is promoted or a backup is recovered. On a
// replica it is an error, and nothing can be granted there anyway.
const pgIdentity = `((SELECT system_identifier FROM pg_control_system())::text || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8))`

// pgServer is {server} on PostgreSQL: when its postmaster was started, in microseconds. To read the system
// identifier costs each statement 20 µs and more (pg_control_system opens a file), and the timeline some
// operations on text.
//
// It is as good as both. A process compares it with what it read in one statement with the identity,
// for the same incarnation. That was on a primary: on a replica the identity is an error. The
// system identifier of a running postmaster does not change, nor the timeline of a primary: to become a
// replica, and another server's successor, it must be started again, and two servers are not started in the
// same microsecond. So a promoted replica, a restored backup and a copy of the tables in
// another cluster have another {server}, and the statements that compare the identity follow.
const pgServer = `(date_part('epoch', pg_postmaster_start_time()) * 1000000)::bigint::text`

// pgUndone is {undone} on PostgreSQL: which of the claims in $4, names by number, the rows name, as granted or as broken.
const pgUndone = `(SELECT jsonb_agg(r.n::bigint) FROM jsonb_each_text(CAST($4 AS text)::jsonb) AS r (n, name) JOIN {p}lock l ON l.name = r.name
  WHERE l.holder = $1 AND l.seq = r.n::bigint OR l.grants @> jsonb_build_array(jsonb_build_object('s', $1, 'n', r.n::bigint))
    OR l.marks @> jsonb_build_array(jsonb_build_object('s', $1, 'n', r.n::bigint, 'k', '` + lockrow.Broken + `')))`

// clocks is {now}. The functions do not depend on the session's time zone.
var clocks = map[Dialect]string{
	PostgreSQL: `(date_part('epoch', clock_timestamp()) * 1000000)::bigint`,
	MySQL:      `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`,
}

// texts are the statements of a store.
type texts map[string]string

const (
	// loudly ends the name of a statement that writes a lock and notifies, quietly that of one that
	// does not notify although the statement of that name does.
	loudly, quietly = "Notify", "Quiet"
	// silence stands for a notification.
	silence = "1"
)

// newTexts reads the statements of a dialect. ident and server are the expressions for who
// the server is, listen is whether a process may listen for notifications.
func newTexts(d Dialect, prefix, ident, server string, listen bool) texts {
	notify, wanted := silence, "NULL"
	if listen {
		channel := "pg_notify('" + channelPrefix(prefix) + "' || "
		notify = "CASE WHEN l.holder IS NOT NULL THEN " + channel + "l.holder, l.seq || ' ' || l.counter || CASE WHEN l.queue IS NOT NULL AND l.record LIKE '" + lockrow.WatchKey + "%' THEN ' " + wantedWord + "' ELSE '' END)::text END"
		wanted = channel + "l.holder, '" + wantedWord + " ' || l.seq)::text"
	}
	free := "{p}lock.holder IS NULL AND {p}lock.grants IS NULL AND {p}lock.queue IS NULL AND {p}lock.marks IS NULL"
	json, first := "?", "SUBSTRING(TRIM(SUBSTRING_INDEX(SUBSTRING_INDEX(l.queue, '\"s\":', 2), '\"s\":', -1)), 2, 32)"
	if d == PostgreSQL {
		json, first = "CAST(? AS text)::jsonb", "l.queue->0->>'s'"
	}
	before := "SUBSTRING_INDEX(IF(queue IS NULL, SUBSTRING(SUBSTRING_INDEX(record, '" + lockrow.HandoffKey + "', -1), 3), SUBSTRING(SUBSTRING_INDEX(queue, '" + lockrow.HandoffKey + "', -1), 4)), '}', 1)"
	t := texts{}
	own := mysqlText
	if d == PostgreSQL {
		own = postgresText
	}
	fill := func(name, body, notify, wanted string) string {
		body = strings.NewReplacer("{p}", prefix, "{now}", clocks[d], "{ident}", ident, "{server}", server, "{j}", json, "{first}", first, "{before}", before, "{notify}", notify, "{wanted}", wanted).
			Replace(strings.NewReplacer("{free}", free, "{undone}", pgUndone).Replace(body))
		if d == PostgreSQL {
			body = numbered(body)
		}
		return "/* fencelock " + name + " */ " + body
	}
	for _, text := range []string{bothText, own} {
		for name, body := range sections(text) {
			t[name] = fill(name, body, notify, wanted)
			if quiet := fill(name, body, silence, "NULL"); quiet != t[name] {
				t[name+quietly] = quiet
			}
		}
	}
	if d == PostgreSQL {
		for _, name := range []string{"write", "writeFor"} {
			body, n := t[name], strings.Count(t[name], "$")
			t[name+loudly] = fmt.Sprintf("WITH w AS (%s RETURNING 1) SELECT pg_notify(x->>0, x->>1) FROM w, jsonb_array_elements(CAST($%d AS text)::jsonb) x", body, n+1)
		}
	}
	return t
}

// sections splits a file of statements at its headings and leaves comments out.
func sections(text string) map[string]string {
	words := map[string][]string{}
	name := ""
	for line := range strings.Lines(text) {
		if heading, ok := strings.CutPrefix(line, "-- name: "); ok {
			name = strings.TrimSpace(heading)
		} else if name != "" && !strings.HasPrefix(line, "--") {
			words[name] = append(words[name], strings.Fields(line)...)
		}
	}
	found := map[string]string{}
	for name, all := range words {
		found[name] = strings.Join(all, " ")
	}
	return found
}

// numbered writes parameters as PostgreSQL wants them.
func numbered(text string) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if r == '?' {
			n++
			b.WriteString("$" + strconv.Itoa(n))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// channelPrefix begins the names of channels. A schema's name has no place there.
func channelPrefix(prefix string) string {
	return prefix[strings.LastIndex(prefix, ".")+1:]
}

// list returns n parameters, beginning with number from.
func (d Dialect) list(from, n int) string { return strings.Join(d.parameters(from, n), ", ") }

// parameters are n parameters, beginning with number from.
func (d Dialect) parameters(from, n int) []string {
	p := make([]string, n)
	for i := range p {
		p[i] = "?"
		if d == PostgreSQL {
			p[i] = "$" + strconv.Itoa(from+i)
		}
	}
	return p
}
