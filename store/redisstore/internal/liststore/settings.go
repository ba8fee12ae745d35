// SPDX-License-Identifier: Apache-2.0

package liststore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// settings are what all processes of a namespace agree on, through its marker.
type settings struct {
	buckets int
	maxTTL  time.Duration
	grace   bool
}

// String returns the settings as the marker has them.
func (s settings) String() string {
	// Not by fmt: every call of a script has them.
	return "v2 buckets=" + strconv.Itoa(s.buckets) + " maxttl=" + s.maxTTL.String() + " grace=" + strconv.FormatBool(s.grace)
}

// parseSettings reads the settings of a marker. It reports false for those of another
// version of the layout.
func parseSettings(text string) (s settings, ok bool) {
	var maxTTL string
	if _, err := fmt.Sscanf(text, "v2 buckets=%d maxttl=%s grace=%t", &s.buckets, &maxTTL, &s.grace); err != nil {
		return settings{}, false
	}
	var err error
	s.maxTTL, err = time.ParseDuration(maxTTL)
	return s, err == nil && s.buckets > 0 && s.String() == text
}

// graceMillis is how long the grace period lasts, as scripts read it.
func (s settings) graceMillis() string {
	if !s.grace {
		return "0"
	}
	return ms(s.maxTTL)
}

// maxCheck is for how long a check of the replication id counts at most (lib.lua).
const maxCheck = time.Second

// check is for how long such a check counts in a namespace.
func (s settings) check() time.Duration {
	if !s.grace {
		return maxCheck
	}
	return min(maxCheck, s.maxTTL/4)
}

// shard returns the bucket of a name.
func (s settings) shard(name string) string {
	if s.buckets == 1 {
		return firstShard
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	return strconv.Itoa(int(h.Sum32() % uint32(s.buckets)))
}

// firstShard is the bucket that every namespace has. Operators' calls read from
// its marker how many buckets there are.
const firstShard = "0"

// errVacant is returned for a bucket that no session has been opened in.
var errVacant = errors.New("redisstore: the namespace is not set up")

// settingsError is returned when the namespace was set up with other settings.
type settingsError struct {
	namespace string
	theirs    string
	ours      settings
}

// Error names the settings to change, as parameters of the URL and as options.
func (e *settingsError) Error() string {
	theirs, ok := parseSettings(e.theirs)
	if !ok {
		return fmt.Sprintf("redisstore: the namespace %q was set up with %q, by another version of this library; use the same version or another namespace: %v",
			e.namespace, e.theirs, driver.ErrRefused)
	}
	var url, options []string
	add := func(differ bool, parameter, option string, value any) {
		if differ {
			url, options = append(url, fmt.Sprintf("%s=%v", parameter, value)), append(options, fmt.Sprintf("%s: %v", option, value))
		}
	}
	add(theirs.maxTTL != e.ours.maxTTL, "max_ttl", "MaxTTL", theirs.maxTTL)
	add(theirs.grace != e.ours.grace, "grace", "Grace", theirs.grace)
	add(theirs.buckets != e.ours.buckets, "buckets", "Buckets", theirs.buckets)
	after := "they can be changed when no process uses the namespace"
	if theirs.buckets > 1 || e.ours.buckets > 1 {
		after = "to change them see docs/redis-layout.md"
	}
	set := strings.Join(url, "&")
	return fmt.Sprintf("redisstore: the namespace %q was set up with %s; add %s to the URL (Options{%s}) or use another namespace; %s: %v",
		e.namespace, set, set, strings.Join(options, ", "), after, driver.ErrRefused)
}

// Is reports whether the error means target: it is a refusal.
func (e *settingsError) Is(target error) bool { return target == driver.ErrRefused }

// current are the settings to begin an operator's call with: those that the last such
// call found, or our own.
func (s *Store) current() settings {
	if found := s.found.Load(); found != nil {
		return *found
	}
	return s.settings
}

// operate makes an operator's call (Inspect, List, Break, SetLimit). Such a call is never
// refused for its settings: if the namespace was set up with others, call is run again
// with those. It sets nothing up. A bucket without a marker may be one that the namespace
// does not have, so the first bucket is asked then.
func (s *Store) operate(ctx context.Context, call func(settings) error) error {
	set := s.current()
	for tries := 1; ; tries++ {
		err := call(set)
		if errors.Is(err, errVacant) {
			if _, first := s.callWith(ctx, set, inspectScript, firstShard, nil, "0", "0"); first != nil {
				err = first
			}
		}
		var other *settingsError
		if !errors.As(err, &other) || tries == 3 {
			return err
		}
		theirs, ok := parseSettings(other.theirs)
		if !ok {
			return err
		}
		s.found.Store(&theirs)
		set = theirs
	}
}

// Unused reports whether the first session will fix a number of buckets, which cannot be
// changed as other settings of a namespace that is vacant can.
func (s *Store) Unused(ctx context.Context) (bool, error) {
	if s.opts.Buckets == 1 {
		return false, nil
	}
	_, err := s.callWith(ctx, s.settings, inspectScript, firstShard, nil, "0", "0")
	if errors.Is(err, errVacant) {
		return true, nil
	}
	return false, err
}
