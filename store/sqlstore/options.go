// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
)

// DefaultMaxTTL is the default of Options.MaxTTL without Options.Grace.
const DefaultMaxTTL = time.Minute

// graceMaxTTL is the default with Options.Grace: a grace period is as long, and the default TTL of a client is not longer.
const graceMaxTTL = 15 * time.Second

// Options are the settings of a store; nil stands for the defaults. Processes with different
// options work together.
type Options struct {
	// Namespace begins the names of the three tables, with an underscore after it; "fencelock" if
	// empty. With a schema before a dot, "locks.fencelock", they are looked for there and not on the
	// search path. It has at most 29 small letters, digits, underscores and hyphens, which
	// are underscores in the names.
	Namespace string
	// Dialect is the SQL dialect of the database. By default it follows from the driver.
	Dialect Dialect
	// MaxTTL is the longest TTL of any process that uses the tables. A grace period is as long
	// as the highest MaxTTL of a process. Default 15 seconds with Grace, one minute (DefaultMaxTTL) without.
	MaxTTL time.Duration
	// Grace makes a server that took over, and may lack the last grants of its predecessor,
	// grant nothing until every earlier session must have ended, so that holders keep their
	// leases. It is not needed where a replica takes over only with all that was
	// acknowledged. One process that asks for it is enough: the tables have it from then on,
	// for all processes, until Store.Configure switches it off.
	Grace bool
	// Poll turns LISTEN and NOTIFY of PostgreSQL off, and named locks of MySQL and
	// MariaDB: waiters poll again and again, with growing pauses, and need no
	// connections. NOTIFY makes handoffs of all locks of a database commit one after
	// the other; where there are thousands a second this is the better choice. Set it in all
	// processes: on PostgreSQL one that listens finds a grant late, by up to a TTL, if one that
	// polls hands it over.
	Poll bool
	// Pooler is set if a pooler gives each statement to another connection, as
	// pgbouncer does in transaction mode: this process then prepares no statements
	// and polls. Without it the store finds out by itself, after some errors that
	// no client sees and a LISTEN that stays behind in the pooler.
	Pooler bool

	// Accept has the codes of findings that are known and accepted: Open and
	// a store of FromURL do not fail because of them, and do not report them to Warn. A
	// store that New made checks nothing by itself.
	Accept []string
	// Warn is called with what Open finds wrong with the database, once; a store of FromURL calls
	// it when the first session is opened, which waits for it. Default: a line to log/slog.
	Warn func(driver.Finding)

	maxTTLSet bool // it is not the default
}

// minMaxTTL and maxMaxTTL bound MaxTTL.
const minMaxTTL, maxMaxTTL = time.Second, 24 * time.Hour

var namespaces = regexp.MustCompile(`^([a-z][a-z0-9_]{0,29}\.)?[a-z][a-z0-9_-]{0,28}$`)

const defaultNamespace = "fencelock"

// prefix begins the names of the tables.
func (o *Options) prefix() string { return prefixOf(o.Namespace) }

// prefixOf is the prefix of the tables of a namespace.
func prefixOf(namespace string) string {
	return strings.ReplaceAll(cmp.Or(namespace, defaultNamespace), "-", "_") + "_"
}

// filled returns the options with defaults, or what is wrong with them.
func (o *Options) filled() (Options, error) {
	var f Options
	if o != nil {
		f = *o
	}
	f.maxTTLSet = f.MaxTTL != 0
	if f.MaxTTL == 0 {
		f.MaxTTL = DefaultMaxTTL
		if f.Grace {
			f.MaxTTL = graceMaxTTL
		}
	}
	if f.Namespace != "" && !namespaces.MatchString(f.Namespace) {
		return f, fmt.Errorf("sqlstore: Options.Namespace %q: use up to 29 small letters, digits, underscores and hyphens, as in %q or %q", f.Namespace, defaultNamespace, "schema."+defaultNamespace)
	}
	if f.MaxTTL < minMaxTTL || f.MaxTTL > maxMaxTTL {
		return f, fmt.Errorf("sqlstore: Options.MaxTTL is %v: choose between 1s and 24h", f.MaxTTL)
	}
	if f.Dialect > MySQL {
		return f, fmt.Errorf("sqlstore: Options.Dialect %d: there are Auto, PostgreSQL and MySQL", f.Dialect)
	}
	if err := storekit.Accepts(f.Accept, codes); err != nil {
		return f, fmt.Errorf("sqlstore: %w", err)
	}
	return f, nil
}
