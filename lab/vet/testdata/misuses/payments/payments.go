// SPDX-License-Identifier: Apache-2.0

// Package payments is a server in the shape of gRPC.
package payments

import (
	"context"
	"database/sql"
	"log/slog"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

type PayRequest struct {
	Order string
	Cents int64
}

type PayReply struct{ Paid bool }

type Server struct {
	db    *sql.DB
	locks *fencelock.Client
}

func connect(ctx context.Context) (*fencelock.Client, error) {
	return fencelock.New(memstore.New(nil), nil)
}

func (s *Server) book(ctx context.Context, order string, cents int64) error { return nil }

// Pay connects for each call.
func (s *Server) Pay(ctx context.Context, req *PayRequest) (*PayReply, error) {
	locks, err := connect(ctx) // misuse: clientperrequest
	if err != nil {
		return nil, err
	}
	defer locks.Close(ctx)
	err = locks.Do(ctx, req.Order, func(ctx context.Context, l *fencelock.Lease) error {
		return s.book(ctx, req.Order, req.Cents)
	})
	return &PayReply{Paid: err == nil}, err
}

// Refund logs the token and writes without it.
func (s *Server) Refund(ctx context.Context, req *PayRequest) (*PayReply, error) {
	err := s.locks.Do(ctx, req.Order, func(ctx context.Context, l *fencelock.Lease) error {
		slog.InfoContext(ctx, "refund", "order", req.Order, "token", l.Token()) // misuse: tokencheck
		_, err := s.db.ExecContext(ctx, "UPDATE payments SET cents = cents - $1 WHERE id = $2", req.Cents, req.Order)
		return err
	})
	return &PayReply{}, err
}

// Capture uses the wrong context for the booking and a nested lock.
func (s *Server) Capture(ctx context.Context, req *PayRequest) (*PayReply, error) {
	err := s.locks.Mutex(req.Order).Do(ctx, func(held context.Context, l *fencelock.Lease) error {
		if err := s.book(ctx, req.Order, req.Cents); err != nil { // misuse: outerctx
			return err
		}
		return s.locks.Do(ctx, "journal", func(held context.Context, l *fencelock.Lease) error { // misuse: outerctx
			return s.book(held, "journal", req.Cents)
		})
	})
	return &PayReply{}, err
}

// Void forgets the lock when there is nothing to do.
func (s *Server) Void(ctx context.Context, req *PayRequest) (*PayReply, error) {
	lease, err := s.locks.RWMutex(req.Order).Lock(ctx) // misuse: leaseleak
	switch {
	case err != nil:
		return nil, err
	case req.Cents == 0:
		return &PayReply{}, nil
	}
	err = s.book(lease.Context(), req.Order, -req.Cents)
	if uerr := lease.Unlock(ctx); err == nil {
		err = uerr
	}
	return &PayReply{}, err
}
