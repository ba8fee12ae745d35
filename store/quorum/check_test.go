// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/quorum"
)

// checked is a store whose servers may not answer.
type checked struct {
	driver.Store
	err error
}

// Check implements driver.Checker.
func (c checked) Check(context.Context) ([]driver.Finding, error) { return nil, c.err }

// TestCheckCountsNodes: a minority that does not answer is a warning, a majority a danger.
func TestCheckCountsNodes(t *testing.T) {
	for down, want := range []driver.Severity{driver.Note, driver.Warning, driver.Danger, driver.Danger} {
		var nodes []quorum.Node
		for i, name := range []string{"a", "b", "c"} {
			n := checked{Store: memstore.New(nil)}
			if i < down {
				n.err = errors.New("gone")
			}
			nodes = append(nodes, quorum.Node{Name: name, Store: n})
		}
		store, err := quorum.New(nodes, nil)
		must.OK(t, err)
		found, err := store.Check(t.Context())
		if err != nil || len(found) != down {
			t.Fatalf("%d down: got %v, %v", down, found, err)
		}
		for _, f := range found {
			if f.Code != "unreachable" || f.Severity != want {
				t.Errorf("%d down: got %v", down, f)
			}
		}
	}
}
