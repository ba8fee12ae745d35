// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
)

// locked is a buffer that the server may write to while the test reads.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func serve(t *testing.T, g Guard) (*Client, *locked) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	out, over := &locked{}, make(chan error, 1)
	go func() { over <- Serve(l, g, history.NewRecorder(out)) }()
	t.Cleanup(func() {
		_ = l.Close()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return &Client{Base: "http://" + l.Addr().String(), Who: "c0"}, out
}

// late is the story that guards are for: token 1 reads, token 2 reads and writes,
// token 1 writes. It returns what the late write got.
func late(t *testing.T, c *Client, register string) error {
	ctx := t.Context()
	old, err := c.Read(ctx, register, "l0", 1)
	must.OK(t, err)
	list, err := c.Read(ctx, register, "l0", 2)
	if err == nil {
		err = c.Append(ctx, register, "l0", 2, list, "b")
	}
	must.OK(t, err)
	return c.Append(ctx, register, "l0", 1, old, "a")
}

func TestGuard(t *testing.T) {
	c, out := serve(t, Sound)
	if err := late(t, c, history.Fenced); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the late write got %v, want %v", err, fence.ErrStale)
	}
	if err := late(t, c, history.Unfenced); err != nil {
		t.Errorf("without a guard the late write got %v", err)
	}
	must.OK(t, c.Finish(t.Context()))
	out.mu.Lock()
	defer out.mu.Unlock()
	final := map[string][]string{}
	must.OK(t, history.Read(&out.b, func(e history.Event) {
		if e.Kind == history.Final {
			final[e.Register] = e.List
		}
	}))
	if !slices.Equal(final[history.Fenced], []string{"b"}) || !slices.Equal(final[history.Unfenced], []string{"a"}) {
		t.Errorf("the lists are %v; the guarded one must have b, the other one lost it", final)
	}
}

func TestWrongGuards(t *testing.T) {
	open, _ := serve(t, Open)
	if err := late(t, open, history.Fenced); err != nil {
		t.Errorf("the open guard refused: %v", err)
	}
	above, _ := serve(t, Above)
	if _, err := above.Read(t.Context(), history.Fenced, "l0", 1); err != nil {
		t.Fatal(err)
	}
	if err := above.Append(t.Context(), history.Fenced, "l0", 1, nil, "a"); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the guard that wants greater tokens let one in twice: %v", err)
	}
	reads, _ := serve(t, OnlyWrites)
	for _, token := range []int64{2, 1} {
		if _, err := reads.Read(t.Context(), history.Fenced, "l0", token); err != nil {
			t.Errorf("the guard that ignores reads refused one: %v", err)
		}
	}
}

// TestListWithoutAccess: a list that no client was let in to has no last state, which would
// look like a list that lost nothing.
func TestListWithoutAccess(t *testing.T) {
	c, out := serve(t, Sound)
	if _, err := c.Read(t.Context(), history.Fenced, "l0", 0); err == nil {
		t.Fatal("a reader without a token was let in")
	}
	must.OK(t, c.Finish(t.Context()))
	out.mu.Lock()
	defer out.mu.Unlock()
	if out.b.Len() > 0 {
		t.Errorf("the resource reported %s", out.b.String())
	}
}
