// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"fmt"
	"regexp"
	"time"
)

// DefaultMaxTTL is the longest session allowed unless Options say otherwise.
const DefaultMaxTTL = time.Minute

// DefaultPrefix begins the names of the tables unless Options say otherwise.
const DefaultPrefix = "fencelock_"

// Options are the settings of a store; nil stands for the defaults. MaxTTL, Grace and
// Poll are kept in the tables: a process with others is refused.
type Options struct {
	// Prefix begins the names of the three tables; DefaultPrefix if empty. With a
	// schema before a dot, "locks.fencelock_", they are looked for there and not on
	// the search path. It has at most 30 letters, digits and underscores.
	Prefix string
	// Dialect is which SQL the database speaks. By default the driver tells.
	Dialect Dialect
	// MaxTTL is the longest TTL of a session, and how long grace lasts;
	// DefaultMaxTTL if 0.
	MaxTTL time.Duration
	// Grace: a server that took over, and may not know the last grants of the one
	// before, grants nothing until every earlier session must have ended, so that
	// holders keep their leases. It is not needed where a replica takes over only
	// with all that was acknowledged.
	Grace bool
	// Poll turns LISTEN and NOTIFY of PostgreSQL off: those who wait look again and
	// again, with growing pauses, as they do on MySQL. NOTIFY makes hand-overs of all
	// locks of a database commit one after the other; where there are thousands a
	// second this is the better choice.
	Poll bool
	// Pooler says that a pooler gives each statement to another connection, as
	// pgbouncer does in transaction mode: this process then prepares no statements
	// and polls. Without it the store finds out by itself, after some errors that
	// nobody sees and a LISTEN that stays behind in the pooler.
	Pooler bool
}

var prefixes = regexp.MustCompile(`^([a-z][a-z0-9_]{0,29}\.)?[a-z][a-z0-9_]{0,29}$`)

// filled returns the options with defaults, or what is wrong with them.
func (o *Options) filled() (Options, error) {
	var f Options
	if o != nil {
		f = *o
	}
	if f.Prefix == "" {
		f.Prefix = DefaultPrefix
	}
	if f.MaxTTL == 0 {
		f.MaxTTL = DefaultMaxTTL
	}
	if !prefixes.MatchString(f.Prefix) {
		return f, fmt.Errorf("sqlstore: Options.Prefix %q: use up to 30 small letters, digits and underscores, as in %q or %q", f.Prefix, DefaultPrefix, "schema."+DefaultPrefix)
	}
	if f.MaxTTL < time.Second || f.MaxTTL > 24*time.Hour {
		return f, fmt.Errorf("sqlstore: Options.MaxTTL is %v: choose between 1s and 24h", f.MaxTTL)
	}
	if f.Dialect > MySQL {
		return f, fmt.Errorf("sqlstore: Options.Dialect %d: there are Auto, PostgreSQL and MySQL", f.Dialect)
	}
	return f, nil
}

// settings are what all processes must agree on, as the table has them.
func (o *Options) settings() string {
	return fmt.Sprintf("v1 maxttl=%v grace=%t poll=%t", o.MaxTTL, o.Grace, o.Poll)
}

// graceFor is how long a new memory grants nothing, in microseconds.
func (o *Options) graceFor() int64 {
	if o.Grace {
		return o.MaxTTL.Microseconds()
	}
	return 0
}
