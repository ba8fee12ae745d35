// SPDX-License-Identifier: Apache-2.0

// Package tenants assigns tenants to workers.
package tenants

import (
	"context"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

type owned struct {
	tenant string
	l      *fencelock.Lease
	since  time.Time
}

type Pool struct {
	store driver.Store
	locks *fencelock.Client
	owned []*owned
	ready chan *fencelock.Lease
}

func serve(ctx context.Context, tenant string) error { return nil }

// Add takes a tenant and serves it.
func (p *Pool) Add(ctx context.Context, tenant string) error {
	l, err := p.locks.Mutex("tenants/" + tenant).Lock(ctx)
	if err != nil {
		return err
	}
	p.owned = append(p.owned, &owned{tenant: tenant, l: l, since: time.Now()}) // misuse: leasectx
	go serve(ctx, tenant)
	return nil
}

// Drop gives the tenant back.
func (p *Pool) Drop(ctx context.Context, tenant string) error {
	for _, o := range p.owned {
		if o.tenant == tenant && o.l != nil {
			return o.l.Unlock(ctx)
		}
	}
	return nil
}

// Prepare locks ahead of time.
func (p *Pool) Prepare(ctx context.Context, tenant string) error {
	l, err := p.locks.Mutex("tenants/" + tenant).Lock(ctx)
	if err != nil {
		return err
	}
	p.ready <- l // misuse: leasectx
	return nil
}

// Work takes what was prepared.
func (p *Pool) Work(ctx context.Context) {
	for l := range p.ready {
		if err := serve(ctx, l.Name()); err != nil {
			fmt.Println(err)
		}
		_ = l.Unlock(ctx)
	}
}

// Refresh makes a client for each tenant.
func (p *Pool) Refresh(ctx context.Context, tenants []string) error {
	for _, tenant := range tenants {
		c, err := fencelock.New(p.store, nil) // misuse: clientperrequest
		if err != nil {
			return err
		}
		err = c.Do(ctx, "tenants/"+tenant, func(ctx context.Context, l *fencelock.Lease) error { return serve(ctx, tenant) })
		if cerr := c.Close(ctx); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func hold(ctx context.Context, l *fencelock.Lease, tenant string) {
	defer l.Unlock(ctx)
	if err := serve(ctx, tenant); err != nil {
		fmt.Println(tenant, err)
	}
}

// Start serves a tenant in a goroutine that gets the lease and the wrong context.
func (p *Pool) Start(ctx context.Context, tenant string) error {
	lease, err := p.locks.Mutex("tenants/" + tenant).Lock(ctx)
	if err != nil {
		return err
	}
	go hold(ctx, lease, tenant) // misuse: leasectx
	return nil
}
