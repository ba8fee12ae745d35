// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/fencelock/fencelock/driver"
)

// neverAccepted are findings with which no lock can be acquired: accepting them does not help.
var neverAccepted = []string{"tables", "permissions", "replica", "identity", "autocommit", "read-only"}

// fit checks the database in Open, and before the first session of a store that FromURL made, until
// it was found fit once. A database on which locks are unsafe is refused.
func (s *Store) fit(ctx context.Context) error {
	if !s.closeDB || s.fitted.Load() {
		return nil
	}
	found, err := s.Check(ctx)
	if err != nil {
		return err
	}
	// Without tables or permissions nothing works, whatever else is accepted.
	if i := slices.IndexFunc(found, func(f driver.Finding) bool { return slices.Contains(neverAccepted, f.Code) }); i >= 0 {
		return fmt.Errorf("sqlstore: %v: %w", found[i], driver.ErrRefused)
	}
	found = slices.DeleteFunc(found, func(f driver.Finding) bool { return slices.Contains(s.opts.Accept, f.Code) })
	for _, f := range found {
		if f.Severity == driver.Danger {
			return fmt.Errorf("sqlstore: %v; to proceed anyway add accept=%s to the URL (Options.Accept): %w", f, f.Code, driver.ErrRefused)
		}
	}
	if s.fitted.Swap(true) {
		return nil // another session was faster, and reported it
	}
	for _, f := range found {
		s.warn(f)
	}
	return nil
}

// warn reports a finding.
func (s *Store) warn(f driver.Finding) {
	if s.opts.Warn != nil {
		s.opts.Warn(f)
		return
	}
	level := slog.LevelWarn
	if f.Severity == driver.Note {
		level = slog.LevelInfo
	}
	slog.Default().Log(context.Background(), level, "fencelock: "+f.Reason, "engine", s.dialect.String(), "code", f.Code, "fix", f.Fix)
}
