// SPDX-License-Identifier: Apache-2.0

package shard_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/shard"
)

// gone is a store whose server does not answer.
type gone struct{ driver.Store }

// Check implements driver.Checker.
func (gone) Check(context.Context) ([]driver.Finding, error) { return nil, errors.New("gone") }

// TestCheckNamesTheMember: a member that does not answer does not hide what the others found.
func TestCheckNamesTheMember(t *testing.T) {
	found, err := made(t, shard.Member{Name: "a", Store: memstore.New(nil)}, shard.Member{Name: "b", Store: gone{memstore.New(nil)}}).Check(t.Context())
	if err != nil || len(found) != 2 || found[0].Node != "a" || found[0].Code != "one-process" || found[1].Node != "b" || found[1].Code != "unreachable" {
		t.Errorf("got %v, %v", found, err)
	}
}
