// SPDX-License-Identifier: Apache-2.0

package quorum

// Bodies returns how many sessions the store remembers.
func (s *Store) Bodies() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Waiting returns how many goroutines wait for a call to make.
func (s *Store) Waiting() int {
	s.background.mu.Lock()
	defer s.background.mu.Unlock()
	return len(s.background.unused)
}

// Kept returns how many claims the store keeps in memory, held ones included, and how
// many pairs of claim and node may still need a withdrawal.
func (s *Store) Kept() (claims, owed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.sessions {
		b.mu.Lock()
		claims += len(b.requests)
		for _, w := range b.requests {
			for n := range w.slots {
				if w.slots[n].Leaving() || w.slots[n].Late {
					owed++
				}
			}
		}
		b.mu.Unlock()
	}
	return claims, owed
}

// Tombstones returns how many tombstones the sessions of the store remember.
func (s *Store) Tombstones() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.sessions {
		b.mu.Lock()
		n += len(b.tombstoned.young) + len(b.tombstoned.old)
		b.mu.Unlock()
	}
	return n
}
