// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"context"
	"testing"

	"github.com/fencelock/fencelock/fence/fencetest"
)

// TestNote proves the guard of Note. For a resource with a server there are also
// Harness.Restart, Value.LoseReply and Value.Reopen; without them three clauses
// are skipped.
func TestNote(t *testing.T) {
	fencetest.Run(t, &fencetest.Harness{Name: "note",
		New: func(_ context.Context, lock string) (*fencetest.Value, error) {
			note := &Note{lock: lock}
			return &fencetest.Value{
				Enter: func(ctx context.Context) (string, error) {
					fencetest.Step(ctx) // before each round trip: here another holder may come in between
					return note.Enter(ctx)
				},
				Write: func(ctx context.Context, text string) error {
					fencetest.Step(ctx)
					return note.Set(ctx, text)
				},
				Read: func(context.Context) (string, error) { // past the guard
					note.mu.Lock()
					defer note.mu.Unlock()
					return note.text, nil
				},
			}, nil
		}})
}
