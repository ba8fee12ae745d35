// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"os"
	"path/filepath"
)

// The functions of this file may be called from any goroutine. They write a
// snapshot at the very moment it is needed instead of a log all the time, which
// would make every other test slower.

// dump is where the server writes its memory, and looks for it when it starts.
func (s *Server) dump() string { return filepath.Join(s.dir, "dump.rdb") }

// Reboot kills the server and starts it again with its memory as it was.
func (s *Server) Reboot() error {
	rewind, err := s.Checkpoint()
	if err != nil {
		return err
	}
	return rewind()
}

// Checkpoint notes the server's memory. rewind kills the server and starts it
// again with that memory, as a replica goes on that lagged.
func (s *Server) Checkpoint() (rewind func() error, err error) {
	if err := eventually(s.Addr+" saves", func() bool { // not while a replica is fed
		return s.Do("SAVE").Err() == nil
	}); err != nil {
		return nil, err
	}
	memory, err := os.ReadFile(s.dump())
	if err != nil {
		return nil, err
	}
	// A later start without a rewind is one without memory.
	if err := os.Remove(s.dump()); err != nil {
		return nil, err
	}
	return func() error {
		s.Kill()
		if err := os.WriteFile(s.dump(), memory, 0o600); err != nil {
			return err
		}
		defer os.Remove(s.dump())
		return s.start()
	}, nil
}
