// SPDX-License-Identifier: Apache-2.0

// Package billing writes invoices, one customer at a time.
package billing

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
)

type Service struct {
	db    *sql.DB
	locks *fencelock.Client
	mail  func(ctx context.Context, to, text string) error
}

type invoice struct {
	id, customer string
	total        int64
	sent         bool
}

func (s *Service) open(ctx context.Context, customer string) ([]invoice, error) { return nil, nil }
func (s *Service) store(ctx context.Context, inv invoice) error                 { return nil }

// Invoice writes the invoice of a customer.
func (s *Service) Invoice(ctx context.Context, customer string) error {
	lease, err := s.locks.Mutex("customers/" + customer).Lock(ctx) // misuse: leaseleak
	if err != nil {
		return fmt.Errorf("lock %s: %w", customer, err)
	}
	work, cancel := lease.WithContext(ctx)
	defer cancel()
	open, err := s.open(work, customer)
	if err != nil {
		return err // the lock stays taken
	}
	for _, inv := range open {
		if err := s.store(work, inv); err != nil {
			lease.Unlock(ctx)
			return err
		}
	}
	return lease.Unlock(ctx)
}

// Remind mails about everything that is open.
func (s *Service) Remind(ctx context.Context, customer string) error {
	return s.locks.Do(ctx, "customers/"+customer, func(locked context.Context, lease *fencelock.Lease) error {
		open, err := s.open(locked, customer)
		if err != nil {
			return err
		}
		for _, inv := range open {
			if err := s.mail(ctx, customer, inv.id); err != nil { // misuse: outerctx
				return err
			}
		}
		return nil
	})
}

// Close closes the month: the customer is locked twice.
func (s *Service) Close(ctx context.Context, customer string) error {
	return s.locks.Do(ctx, "customers/"+customer, func(locked context.Context, _ *fencelock.Lease) error {
		open, err := s.open(locked, customer)
		if err != nil || len(open) == 0 {
			return err
		}
		timeout, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return s.locks.Do(timeout, "customers/"+customer, func(ctx context.Context, l *fencelock.Lease) error { // misuse: selflock
			return s.store(ctx, open[0])
		})
	})
}

// Correct compares the fence before it writes.
func (s *Service) Correct(ctx context.Context, id string, total int64) error {
	return s.locks.Do(ctx, "invoices/"+id, func(ctx context.Context, l *fencelock.Lease) error {
		var fence int64
		if err := s.db.QueryRowContext(ctx, "SELECT fence FROM invoices WHERE id = $1", id).Scan(&fence); err != nil {
			return err
		}
		mine := int64(l.Token())
		if mine < fence { // misuse: tokencheck
			return errors.New("another process was faster")
		}
		_, err := s.db.ExecContext(ctx, "UPDATE invoices SET total = $1 WHERE id = $2", total, id)
		return err
	})
}

// Sum is right: it gives the lock back on every path, and reports a loss.
func (s *Service) Sum(ctx context.Context, customer string) (sum int64, err error) {
	lease, err := s.locks.RWMutex("customers/" + customer).RLock(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, lease.Unlock(ctx)) }()
	open, err := s.open(lease.Context(), customer)
	for _, inv := range open {
		sum += inv.total
	}
	return sum, err
}
