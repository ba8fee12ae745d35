// SPDX-License-Identifier: Apache-2.0

package native

import (
	"strconv"
	"sync"
	"time"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// seen is what this process knows of each bucket. Calls carry it to the server, which may have lost it:
//
//   - The highest incarnation. A server that was replaced without noticing it, and takes over again with its old
//     data, begins a new incarnation above those of the server that stood in for it (rule 29 of package
//     redismodel). Nothing else can show it that another server has granted locks.
//   - Whether the namespace has grace, and its max_ttl (rules Remembered and Known of package gracemodel).
type seen struct {
	mu       sync.Mutex
	byBucket map[string]known
	last     known // of the latest reply: all buckets of a namespace have the same settings
}

// known is what a process knows of one bucket.
type known struct {
	incarnation int64
	grace       bool
	maxTTL      time.Duration
}

// markerHead is how long the part of a marker is that has fixed places (lib.lua).
const markerHead = 27

// knownOf reads a marker.
func knownOf(marker string) known {
	return known{rediscmd.NumberOf(marker[:7]), marker[14] == 1, time.Duration(rediscmd.NumberOf(marker[15:21])) * time.Millisecond}
}

// check is for how long a check of the replication id counts in such a bucket (lib.lua).
func (k known) check() time.Duration {
	if !k.grace {
		return maxCheck
	}
	return min(maxCheck, k.maxTTL/4)
}

// maxCheck is for how long a check of the replication id counts at most (lib.lua).
const maxCheck = time.Second

// note notes what a reply of the server says. In one incarnation a setting becomes weaker only because an operator made it
// so, and a later incarnation is begun by calls that know what was there before. So the latest reply counts.
func (s *seen) note(bucket string, k known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byBucket == nil {
		s.byBucket = map[string]known{}
	}
	if k.incarnation >= s.byBucket[bucket].incarnation {
		s.byBucket[bucket], s.last = k, k
	}
}

func (s *seen) of(bucket string) known {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byBucket[bucket]
}

// strongest is what is known of a bucket, with the settings that the latest reply of any bucket showed: the process may
// not have seen this bucket, or not since they became stronger.
func (s *seen) strongest(bucket string) known {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.byBucket[bucket]
	k.grace, k.maxTTL = k.grace || s.last.grace, max(k.maxTTL, s.last.maxTTL)
	return k
}

// grace reports whether some bucket has grace.
func (s *seen) grace() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.byBucket {
		if k.grace {
			return true
		}
	}
	return false
}

// asks is what a process asks of a namespace: grace or none, and the longest TTL that it knows of.
type asks struct {
	grace  bool
	maxTTL time.Duration
}

// and is the stronger of what is asked for and what was seen.
func (a asks) and(k known) asks { return asks{a.grace || k.grace, max(a.maxTTL, k.maxTTL)} }

// text is the argument of scripts: max_ttl in ms, negative without grace.
func (a asks) text() string {
	if a.grace {
		return ms(a.maxTTL)
	}
	return "-" + ms(a.maxTTL)
}

// incarnationText is the argument of a call that belongs to no session: negative, or 0 if the process knows of none.
func (k known) incarnationText() string { return strconv.FormatInt(-k.incarnation, 10) }
