// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// settings are what all processes must agree on. The table of the incarnation has them.
type settings struct {
	maxTTL      time.Duration
	grace, poll bool
}

func (o *Options) settings() settings { return settings{o.MaxTTL, o.Grace, o.Poll} }

// String returns the settings as the table has them.
func (s settings) String() string {
	return fmt.Sprintf("v1 maxttl=%v grace=%t poll=%t", s.maxTTL, s.grace, s.poll)
}

// parseSettings reads the settings of a table. It reports false for those of another
// version of the layout.
func parseSettings(text string) (s settings, ok bool) {
	var maxTTL string
	if _, err := fmt.Sscanf(text, "v1 maxttl=%s grace=%t poll=%t", &maxTTL, &s.grace, &s.poll); err != nil {
		return settings{}, false
	}
	var err error
	s.maxTTL, err = time.ParseDuration(maxTTL)
	return s, err == nil && s.maxTTL > 0 && s.String() == text
}

// graceFor is how long a new incarnation grants nothing, in microseconds.
func (s settings) graceFor() int64 {
	if s.grace {
		return s.maxTTL.Microseconds()
	}
	return 0
}

// errVacant is returned to a reader of tables that no session has been opened in.
var errVacant = errors.New("sqlstore: the tables are not set up")

// ErrNoTables is returned, wrapped, when the tables of the store do not exist in the
// database, or the role may not know of them: they must be created first, with Migrate.
var ErrNoTables = errors.New("the tables do not exist")

// otherVersion is the error for settings that this version cannot read.
func otherVersion(prefix, text string) error {
	return fmt.Errorf("sqlstore: the tables %s* were set up with %q, by another version of this library; use the same version or another namespace: %w",
		prefix, text, driver.ErrRefused)
}

// refusal names the settings to change, as parameters of the URL and as options.
func refusal(prefix string, theirs, ours settings) error {
	var url, options []string
	add := func(differ bool, parameter, option string, value any) {
		if differ {
			url, options = append(url, fmt.Sprintf("%s=%v", parameter, value)), append(options, fmt.Sprintf("%s: %v", option, value))
		}
	}
	add(theirs.maxTTL != ours.maxTTL, "max_ttl", "MaxTTL", theirs.maxTTL)
	add(theirs.grace != ours.grace, "grace", "Grace", theirs.grace)
	add(theirs.poll != ours.poll, "poll", "Poll", theirs.poll)
	set := strings.Join(url, "&")
	return fmt.Errorf("sqlstore: the tables %s* were set up with %s; add %s to the URL (Options{%s}) or use another namespace; they can be changed when no process uses the tables: %w",
		prefix, set, set, strings.Join(options, ", "), driver.ErrRefused)
}
