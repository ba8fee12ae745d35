// SPDX-License-Identifier: Apache-2.0

// Package hooks hears of losses by a hook, so leasectx has nothing to say about its leases.
package hooks

import (
	"context"

	"github.com/fencelock/fencelock"
)

var locks *fencelock.Client

type tenants struct{ owned map[string]*fencelock.Lease }

func (t *tenants) event(kind fencelock.EventKind, name string) {
	if kind == fencelock.LeaseLost {
		delete(t.owned, name)
	}
}

func (t *tenants) take(ctx context.Context, name string) error {
	l, err := locks.Mutex(name).Lock(ctx)
	if err != nil {
		return err
	}
	t.owned[name] = l
	return nil
}
