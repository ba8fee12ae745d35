// SPDX-License-Identifier: Apache-2.0

// Package fulfillment packs orders that come by messages.
package fulfillment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// Message is what the broker delivers.
type Message struct {
	Order   string
	Payload []byte
}

type task struct {
	ctx   context.Context
	order string
}

func (t *task) run() error { return nil }

type Packer struct {
	ctx   context.Context
	store driver.Store
	locks *fencelock.Client
	fence func(order string) fencelock.Token
}

func (p *Packer) pack(ctx context.Context, order string) error { return nil }

// Handle makes a client for each message.
func (p *Packer) Handle(ctx context.Context, m *Message) error {
	locks, err := fencelock.New(p.store, nil) // misuse: clientperrequest
	if err != nil {
		return err
	}
	defer locks.Close(ctx)
	return locks.Do(ctx, m.Order, func(ctx context.Context, l *fencelock.Lease) error { return p.pack(ctx, m.Order) })
}

// Batch defers the unlock in a loop: the second round waits for the first.
func (p *Packer) Batch(ctx context.Context, orders []string) error {
	for _, o := range orders {
		l, err := p.locks.Mutex("packing").Lock(ctx) // misuse: selflock
		if err != nil {
			return err
		}
		defer l.Unlock(ctx)
		if err := p.pack(l.Context(), o); err != nil {
			return err
		}
	}
	return nil
}

// Named keeps the function of Do in a variable.
func (p *Packer) Named(ctx context.Context, order string) error {
	work := func(held context.Context, l *fencelock.Lease) error {
		return p.pack(ctx, order) // misuse: outerctx
	}
	return p.locks.Do(ctx, order, work)
}

// Copied gives the outer context another name.
func (p *Packer) Copied(ctx context.Context, order string) error {
	return p.locks.Do(ctx, order, func(held context.Context, l *fencelock.Lease) error {
		c := ctx // misuse: outerctx
		if err := p.pack(c, order); err != nil {
			return err
		}
		return held.Err()
	})
}

// Struct hides the outer context in a struct.
func (p *Packer) Struct(ctx context.Context, order string) error {
	return p.locks.Do(ctx, order, func(held context.Context, l *fencelock.Lease) error {
		t := task{ctx: ctx, order: order} // misuse: outerctx
		return t.run()
	})
}

// lead ignores its context and uses that of the packer.
func (p *Packer) lead(_ context.Context, term *fencelock.Lease) error {
	for p.ctx.Err() == nil {
		if err := p.pack(p.ctx, "next"); err != nil { // misuse: outerctx
			return err
		}
	}
	return nil
}

// Lead runs lead.
func (p *Packer) Lead() error { return p.locks.Election("packer").Run(p.ctx, p.lead) }

// Steps uses the outer context in a function inside.
func (p *Packer) Steps(ctx context.Context, order string) error {
	return p.locks.Do(ctx, order, func(held context.Context, l *fencelock.Lease) error {
		step := func(name string) error {
			return p.pack(ctx, order+"/"+name) // misuse: outerctx
		}
		return errors.Join(step("pick"), step("wrap"), held.Err())
	})
}

// Compare compares with a function of package cmp.
func (p *Packer) Compare(ctx context.Context, order string) error {
	return p.locks.Do(ctx, order, func(ctx context.Context, l *fencelock.Lease) error {
		if cmp.Compare(l.Token(), p.fence(order)) < 0 { // misuse: tokencheck
			return errors.New("stale")
		}
		return p.pack(ctx, order)
	})
}

// Select gives the lock back in one case only.
func (p *Packer) Select(ctx context.Context, order string, cancel <-chan struct{}) error {
	l, err := p.locks.Mutex(order).Lock(ctx) // misuse: leaseleak
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- p.pack(l.Context(), order) }()
	select {
	case err := <-done:
		return errors.Join(err, l.Unlock(ctx))
	case <-cancel:
		return errors.New("canceled")
	case <-time.After(time.Minute):
		return errors.Join(fmt.Errorf("order %s takes too long", order), l.Unlock(ctx))
	}
}

// Nested checks the error of one lock and forgets the other.
func (p *Packer) Nested(ctx context.Context, order, line string) error {
	outer, err := p.locks.Mutex(order).Lock(ctx) // misuse: leaseleak
	if err != nil {
		return err
	}
	inner, err := p.locks.Mutex(line).Lock(outer.Context())
	if err != nil {
		return err
	}
	err = p.pack(inner.Context(), line)
	return errors.Join(err, inner.Unlock(ctx), outer.Unlock(ctx))
}
