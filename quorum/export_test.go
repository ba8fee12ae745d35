// SPDX-License-Identifier: Apache-2.0

package quorum

// Bodies returns how many sessions the store remembers.
func (s *Store) Bodies() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bodies)
}

// Waiting returns how many goroutines wait for a call to make.
func (s *Store) Waiting() int {
	s.behind.mu.Lock()
	defer s.behind.mu.Unlock()
	return len(s.behind.unused)
}
