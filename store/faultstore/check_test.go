// SPDX-License-Identifier: Apache-2.0

package faultstore_test

import (
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestCheckAsksTheWrappedStore: faults do not apply to it.
func TestCheckAsksTheWrappedStore(t *testing.T) {
	inner := memstore.New(nil)
	want, _ := inner.Check(t.Context())
	store, err := faultstore.Wrap(inner, faultstore.Fail(), nil)
	must.OK(t, err)
	if got, err := store.Check(t.Context()); err != nil || len(got) != 1 || got[0] != want[0] {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}
