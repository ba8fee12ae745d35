// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/server"
)

// TestEntriesThatStayAreReported: the last count that succeeded is the result, and not that of a store that could not be
// counted any more when the time was over.
func TestEntriesThatStayAreReported(t *testing.T) {
	broken := errors.New("cut off")
	for name, c := range map[string]struct {
		counts []int64 // one after the other, the last one from then on; -1 is an error
		left   int64
		calls  int // 0 for as many as there is time for
		err    error
	}{
		"a leak":               {counts: []int64{-1, 9, 7, 7, -1}, left: 7},
		"removed late":         {counts: []int64{9, -1, 3}, left: 3, calls: 3},
		"nothing left":         {counts: []int64{2}, left: 2, calls: 1},
		"never counted":        {counts: []int64{-1}, err: broken},
		"a count and a cutoff": {counts: []int64{9, -1}, left: 9},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				calls := 0
				left, err := leftover(ctx, 3, func(ctx context.Context) (int64, error) {
					n := c.counts[min(calls, len(c.counts)-1)]
					calls++
					if n < 0 || ctx.Err() != nil {
						return 0, broken
					}
					return n, nil
				}, time.Second)
				if left != c.left || !errors.Is(err, c.err) || c.err == nil && err != nil {
					t.Errorf("got %d, %v; want %d, %v", left, err, c.left, c.err)
				}
				if c.calls > 0 && calls != c.calls || c.calls == 0 && ctx.Err() == nil {
					t.Errorf("it ended after %d counts, with %v left", calls, ctx.Err())
				}
			})
		})
	}
}

// TestServerThatDoesNotAnswerIsNotCounted: its entries are unknown, and not 0.
func TestServerThatDoesNotAnswerIsNotCounted(t *testing.T) {
	s, err := server.StartRedis(fault.Wants{})
	if errors.Is(err, server.ErrMissing) {
		t.Skip(err)
	}
	must.OK(t, err)
	defer s.Stop()
	all := []server.Server{s}
	if n, err := countRedis(t.Context(), all); n != 0 || err != nil {
		t.Fatalf("an empty server has %d, %v", n, err)
	}
	s.Kill()
	if n, err := countRedis(t.Context(), all); err == nil || !strings.Contains(err.Error(), "cannot be counted") {
		t.Errorf("a server that does not run has %d, %v; want an error", n, err)
	}
}
