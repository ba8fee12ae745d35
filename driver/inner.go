// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"regexp"
	"strings"
)

// Inner returns err for use inside another error, or nil. Its text has no package names,
// because only the outermost error begins with one:
//
//	fmt.Errorf("quorum: node %s: %w", name, driver.Inner(err))
//	// quorum: node a: attempt: outcome unknown, not quorum: node a: redisstore: attempt: …
//
// Package names are those of fencelock and, at the beginning of the text, every name that
// ends as the name of a store or a guard does: yourstore, yourfence.
func Inner(err error) error {
	if err == nil {
		return nil
	}
	return &inner{err}
}

type inner struct{ err error }

// Error implements error.
func (i *inner) Error() string {
	text := i.err.Error()
	if !strings.Contains(text, ": ") {
		return text
	}
	return packageNames.ReplaceAllString(anyStore.ReplaceAllString(text, ""), "$1")
}

// Unwrap returns the error.
func (i *inner) Unwrap() error { return i.err }

var (
	// anyStore is the name of a store or a guard at the beginning of a text.
	anyStore = regexp.MustCompile(`^[a-z0-9]+(store|fence): `)
	// packageNames are those of our packages whose errors begin with them, wherever an
	// error begins inside a text.
	packageNames = regexp.MustCompile(`(^|: |\n|; )(?:(?:fencelock|otelfencelock|quorum|redisquorum|shard|both|memstore|faultstore|` +
		`redisstore|rueidisstore|redissonstore|setnxstore|etcdstore|concurrencystore|zkstore|curatorstore|sqlstore|memcachestore|` +
		`fence|sqlfence|httpfence|filefence|redisfence|etcdfence): )+`)
)
