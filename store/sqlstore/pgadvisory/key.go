// SPDX-License-Identifier: Apache-2.0

package pgadvisory

import (
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"strings"
	"unicode/utf16"
)

// Key is the key of an advisory lock. Keys can be compared.
type Key struct {
	pair          bool
	whole         int64
	first, second int32
}

// Whole returns a key of one number.
func Whole(n int64) Key { return Key{whole: n} }

// Pair returns a key of two numbers. It is never the same as one of one number.
func Pair(first, second int32) Key { return Key{pair: true, first: first, second: second} }

// String returns the key as it is written in SQL.
func (k Key) String() string {
	if k.pair {
		return fmt.Sprintf("(%d, %d)", k.first, k.second)
	}
	return fmt.Sprintf("(%d)", k.whole)
}

// lockedAs is the key as pg_locks shows it: classid, objid and objsubid.
func (k Key) lockedAs() (class, object int64, space int) {
	if k.pair {
		return int64(uint32(k.first)), int64(uint32(k.second)), 2
	}
	return int64(uint32(k.whole >> 32)), int64(uint32(k.whole)), 1
}

// Rails is the key that ActiveRecord takes for migrations of a database. Rails does not wait: it fails with
// ConcurrentMigrationError.
func Rails(database string) Key {
	const salt = 2053462845
	return Whole(salt * int64(crc32.ChecksumIEEE([]byte(database))))
}

// WithAdvisoryLock is the key that the Ruby library with_advisory_lock takes for a name. prefix is the number in the environment
// variable WITH_ADVISORY_LOCK_PREFIX, 0 if it is not set.
func WithAdvisoryLock(name string, prefix int64) Key {
	return Pair(int32(crc32.ChecksumIEEE([]byte(name))&0x7fffffff), int32(prefix&0x7fffffff))
}

// GolangMigrate is the key that golang-migrate takes for a database. Its defaults are the schema public and the table
// schema_migrations.
func GolangMigrate(database, schema, table string) Key {
	const salt uint32 = 1486364155
	sum := crc32.ChecksumIEEE([]byte(strings.Join([]string{schema, table, database}, "\x00")))
	return Whole(int64(sum * salt))
}

// Goose is the key that goose takes with its session locker, unless it is given another.
func Goose() Key { return Whole(4097083626) }

// Flyway is the key that Flyway takes for the history table of a schema. Its default is the table flyway_schema_history.
func Flyway(schema, table string) Key {
	const magic = 0x466c79776179 // "Flyway"
	return Whole(magic + int64(javaHash(`"`+schema+`"."`+table+`"`)))
}

// Liquibase is the key that Liquibase takes with liquibase.useSessionLock. Its default is the lock table
// DATABASECHANGELOGLOCK. Without that setting Liquibase takes no advisory lock, and is not excluded.
func Liquibase(lockTable, schema string) Key { return Pair(javaHash(lockTable), javaHash(schema)) }

// Atlas is the key that Atlas takes for a name: "atlas_migrate_execute" to apply migrations, "atlas_migrate_diff" to
// compute them.
func Atlas(name string) Key {
	h := fnv.New32()
	_, _ = h.Write([]byte(name)) // a hash does not fail
	return Whole(int64(h.Sum32()))
}

// javaHash is String.hashCode of Java.
func javaHash(text string) (sum int32) {
	for _, unit := range utf16.Encode([]rune(text)) {
		sum = 31*sum + int32(unit)
	}
	return sum
}
