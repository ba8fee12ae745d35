// SPDX-License-Identifier: Apache-2.0

package filefence

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/internal/must"
)

// TestCheckAndWriteAreOneStep: fencetest cannot stop Local between its check and its write, so
// this test does. A newer token waits until the older one has written.
func TestCheckAndWriteAreOneStep(t *testing.T) {
	const lock = "orders"
	l, err := NewLocal(filepath.Join(t.TempDir(), "current"), lock)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	must.OK(t, err)
	older := fence.With(t.Context(), fence.Mark{Lock: lock, Token: 256})
	newer := fence.With(t.Context(), fence.Mark{Lock: lock, Token: 512})
	written := make(chan error, 1)
	err = l.raise(older, func(p *pointed) bool {
		go func() { written <- l.Set(newer, "newer") }()
		select {
		case err := <-written:
			written <- err
			t.Errorf("a newer token was admitted between the check and the write: %v", err)
		case <-time.After(10 * pollEvery):
		}
		p.Name = "older"
		return true
	})
	must.OK(t, errors.Join(err, <-written))
	if name, err := l.Get(t.Context()); name != "newer" || err != nil {
		t.Errorf("the pointer is at %q, %v, want the newer token's", name, err)
	}
}
