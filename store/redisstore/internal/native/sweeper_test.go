// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// sweptServer answers the scripts of a sweep, and notes them.
type sweptServer struct {
	rediscmd.Client
	ran []string
}

// Eval implements rediscmd.Client.
func (s *sweptServer) Eval(_ context.Context, script *rediscmd.Script, _, _ []string) ([]any, error) {
	s.ran = append(s.ran, script.Name)
	if script == tidyScript {
		return []any{"OK", "0", "1"}, nil
	}
	return []any{"OK", int64(1), int64(0)}, nil
}

// TestSweepOfLongLocksRenewsItsLease: a sweep that stays with the same names for long renews its
// lease, so that no second process begins to sweep.
func TestSweepOfLongLocksRenewsItsLease(t *testing.T) {
	server := &sweptServer{}
	store := &Store{client: server, opts: Options{Buckets: 1}, layout: layout{buckets: 1}}
	w := &sweeper{s: &session{store: store, shard: firstShard, ctx: t.Context()}}
	for _, old := range []bool{true, false, true} {
		if old {
			w.renewed = time.Now().Add(-sweepLease / 2)
		}
		if left, _, ok := w.locks([]string{"x", "y"}, "1", false); !ok || len(left) != 1 {
			t.Fatal(left, ok)
		}
	}
	if want := []string{"tidy", "sweep", "sweep", "tidy", "sweep"}; !slices.Equal(server.ran, want) {
		t.Errorf("the sweep ran %q, want %q", server.ran, want)
	}
}

// TestSweepRests: all sweeps of a server together take at most a tenth of its time, and a step
// that was held up outside of the server does not hold up the sweep ten times as long.
func TestSweepRests(t *testing.T) {
	for _, tt := range []struct {
		took    time.Duration
		buckets int
		want    time.Duration
	}{
		{500 * time.Microsecond, 1, 5 * time.Millisecond},
		{500 * time.Microsecond, 32, 160 * time.Millisecond},
		{10 * time.Microsecond, 1, between},
		{time.Second, 1, longest},
	} {
		if got := rest(tt.took, tt.buckets); got != tt.want {
			t.Errorf("after %v with %d buckets it rests %v, want %v", tt.took, tt.buckets, got, tt.want)
		}
	}
}
