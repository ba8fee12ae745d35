// SPDX-License-Identifier: Apache-2.0

package quorum

// Bodies returns how many sessions the store remembers.
func (s *Store) Bodies() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bodies)
}
