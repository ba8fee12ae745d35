// SPDX-License-Identifier: Apache-2.0

package pgadvisory

import "testing"

// TestKeysAreThoseOfTheTools: the values were read from the tools, or computed by them. If one changes, the tool is not excluded
// any more.
func TestKeysAreThoseOfTheTools(t *testing.T) {
	for _, c := range []struct {
		what string
		got  Key
		want string
	}{
		{"Rails", Rails("app"), "(6939591962871035475)"},
		{"with_advisory_lock", WithAdvisoryLock("my_lock", 0), "(1202238042, 0)"},
		{"with_advisory_lock, prefix", WithAdvisoryLock("my_lock", 7), "(1202238042, 7)"},
		{"golang-migrate", GolangMigrate("app", "public", "schema_migrations"), "(1787120056)"},
		{"goose", Goose(), "(4097083626)"},
		{"Atlas", Atlas("atlas_migrate_execute"), "(2686470616)"},
		{"Liquibase", Liquibase("DATABASECHANGELOGLOCK", "public"), "(-755096828, -977423767)"},
		{"Flyway", Flyway("public", "flyway_schema_history"), "(77433833903597)"},
	} {
		if got := c.got.String(); got != c.want {
			t.Errorf("the key of %s is %s, want %s", c.what, got, c.want)
		}
	}
	if Whole(0) == Pair(0, 0) {
		t.Error("a key of one number is equal to one of two")
	}
}

func TestJavaHash(t *testing.T) {
	for text, want := range map[string]int32{"": 0, "a": 97, "public": -977423767, "polygenelubricants": -2147483648, "🔒": 1772661} {
		if got := javaHash(text); got != want {
			t.Errorf("the hash of %q is %d, want %d", text, got, want)
		}
	}
}
