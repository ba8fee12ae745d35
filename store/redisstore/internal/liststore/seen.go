// SPDX-License-Identifier: Apache-2.0

package liststore

import (
	"strconv"
	"sync"
)

// seen is the highest incarnation of each bucket that this process knows. Calls carry it to the server: one that
// was replaced without noticing it, and takes over again with its old data, begins a new incarnation
// above those of the server that stood in for it (rule 29 of package listmodel). Nothing else can show
// it that another server has granted locks.
type seen struct {
	mu       sync.Mutex
	byBucket map[string]int64
}

func (s *seen) note(bucket string, incarnation int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byBucket == nil {
		s.byBucket = map[string]int64{}
	}
	s.byBucket[bucket] = max(s.byBucket[bucket], incarnation)
}

// text is the argument of a call that belongs to no session: negative, or 0 if the process knows of none.
func (s *seen) text(bucket string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.FormatInt(-s.byBucket[bucket], 10)
}
