// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/fencelock/fencelock/driver"
)

var _ driver.Configurer = (*Store)(nil)

// Settings implements driver.Configurer.
func (s *Store) Settings(ctx context.Context) ([]driver.Setting, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	var m incarnation
	err := s.row(ctx, "incarnation", nil, m.fields())
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	case m.layout != layout:
		return nil, otherVersion(s.opts.prefix(), m.layout)
	}
	own := s.memory.asks()
	asked := ""
	if own.maxTTL > 0 {
		asked = micros(own.maxTTL).String()
	}
	return []driver.Setting{
		{Name: "grace", Value: strconv.FormatBool(m.rules.grace == 1), Asked: strconv.FormatBool(own.grace == 1),
			Change: "on: at any time, by a process that asks for it; off: when no process asks for it any more"},
		{Name: "max_ttl", Value: micros(m.rules.maxTTL).String(), Asked: asked,
			Change: "up: at any time, by a process that asks for it; down: when no process has a longer TTL or asks for more"},
	}, nil
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// Configure implements driver.Configurer. It changes grace and max_ttl while processes use the tables.
func (s *Store) Configure(ctx context.Context, name, value string) error {
	change, err := settingOf(name, value)
	if err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	m, err := s.incarnation(ctx, false)
	if errors.Is(err, errVacant) {
		return fmt.Errorf("%w; the first process that uses them does it: %w", errVacant, driver.ErrRefused)
	}
	if err != nil {
		return err
	}
	if to := change(m.rules); to.and(m.rules) == to {
		return s.strengthen(ctx, m.inc, change(rules{})) // what was read of the other setting may be weaker by now
	}
	var rest time.Duration
	var more int
	err = s.run(ctx, "configure", func() (err error) {
		rest, more, err = s.weaken(ctx, m.inc, change)
		return err
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("sqlstore: configure: another server took over meanwhile; try again: %w", driver.ErrUnavailable)
	case err != nil:
		return err
	case rest > 0:
		return fmt.Errorf("sqlstore: set %s=%s in the tables %s*: earlier leases may be trusted until the grace period is over; repeat this in %v: %w",
			name, value, s.opts.prefix(), rest.Round(time.Second)+time.Second, driver.ErrRefused)
	case more > 0:
		return fmt.Errorf("sqlstore: set %s=%s in the tables %s*: %d open sessions ask for more; deploy their processes with %s=%s first, then repeat this: %w",
			name, value, s.opts.prefix(), more, name, value, driver.ErrRefused)
	}
	return nil
}

// settingOf returns what a setting makes of the rules.
func settingOf(name, value string) (func(rules) rules, error) {
	switch name {
	case "grace":
		on, err := strconv.ParseBool(value)
		if err != nil {
			return nil, fmt.Errorf("sqlstore: grace is %q; it must be true or false", value)
		}
		grace := graceOf(on)
		return func(r rules) rules { return rules{grace, r.maxTTL} }, nil
	case "max_ttl":
		d, err := time.ParseDuration(value)
		if err != nil || d < minMaxTTL || d > maxMaxTTL {
			return nil, fmt.Errorf("sqlstore: max_ttl is %q; it must be a duration of at least %v and at most %v, such as 15s", value, minMaxTTL, maxMaxTTL)
		}
		return func(r rules) rules { return rules{r.grace, d.Microseconds()} }, nil
	}
	return nil, fmt.Errorf("sqlstore: there is no setting %q; there are grace and max_ttl", name)
}

// weaken makes a setting weaker, unless it returns the rest of a grace period, or how many sessions ask for more. The row of
// the incarnation is locked first: a session that is being opened is counted, or comes after. Sessions that
// have ended are deleted, so that no clock that is set back revives one that was not counted.
func (s *Store) weaken(ctx context.Context, inc int64, change func(rules) rules) (rest time.Duration, more int, err error) {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = tx.Rollback() }()
	var r rules
	var us int64
	if err = tx.QueryRowContext(ctx, s.texts["lockIncarnation"], s.args([]any{inc})...).Scan(&us, &r.grace, &r.maxTTL); err != nil || us > 0 {
		return micros(us), 0, err
	}
	to := change(r)
	allowed := s.args([]any{-to.maxTTL, to.graceFor()})
	if _, err = tx.ExecContext(ctx, s.texts["endMore"], allowed...); err != nil {
		return 0, 0, err
	}
	if err = tx.QueryRowContext(ctx, s.texts["countMore"], allowed...).Scan(&more); err != nil || more > 0 {
		return 0, more, err
	}
	if _, err = tx.ExecContext(ctx, s.texts["weaken"], s.args([]any{to.grace, to.maxTTL})...); err != nil {
		return 0, 0, err
	}
	return 0, 0, tx.Commit()
}

// Begin implements driver.Configurer. It creates no tables; Migrate does.
func (s *Store) Begin(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	r := s.memory.knows(noInc)
	n, err := s.changed(ctx, "beginNew", layout, r.grace, r.maxTTL)
	if err == nil && n == 0 {
		err = fmt.Errorf("sqlstore: the tables %s* are set up: earlier leases may be trusted, so a data loss needs its grace period: %w", s.opts.prefix(), driver.ErrRefused)
	}
	return err
}
