// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/target"
)

// talked is a server that a client calls every 100 ms until a time, and pings always.
type talked struct {
	target.Server
	counts      bool
	since       time.Time
	until       time.Time
	read, reset int
}

func (s *talked) ResetStats(context.Context) error {
	s.reset++
	s.since = time.Now()
	return nil
}

func (s *talked) Stats(context.Context) (target.Stats, error) {
	s.read++
	if !s.counts {
		return nil, nil
	}
	busy := min(time.Since(s.since), max(0, s.until.Sub(s.since)))
	return target.Stats{
		"evalsha": {Calls: int(busy / (100 * time.Millisecond))},
		"ping":    {Calls: int(time.Since(s.since) / time.Millisecond)},
		"info":    {Calls: s.read},
	}, nil
}

// TestCountedAfterTheOthers: what others still send is not counted, those who never
// end are reported, and a server that does not count is not waited for.
func TestCountedAfterTheOthers(t *testing.T) {
	for _, tt := range []struct {
		name           string
		counts         bool
		talk           time.Duration
		least, most    time.Duration
		calls, reports int
	}{
		{"silent", true, 0, quietGap, quietGap, 0, 0},
		{"leftovers", true, 3 * time.Second, 3 * time.Second, 4 * time.Second, 0, 0},
		{"endless", true, time.Hour, quietBound, quietBound + quietGap, 10, 1},
		{"no counters", false, time.Hour, 0, 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				s := &talked{counts: tt.counts, since: began, until: began.Add(tt.talk)}
				var reported []string
				e := &Env{Server: s, Progress: func(format string, args ...any) { reported = append(reported, fmt.Sprintf(format, args...)) }}
				var waited time.Duration
				stats, err := e.counted(t.Context(), func() error {
					waited = time.Since(began)
					time.Sleep(time.Second)
					return nil
				})
				if err != nil || waited < tt.least || waited > tt.most || s.reset != 1 {
					t.Errorf("waited %v, want %v to %v; %d resets, %v", waited, tt.least, tt.most, s.reset, err)
				}
				if got := stats["evalsha"].Calls; got != tt.calls {
					t.Errorf("%d commands are charged, want %d", got, tt.calls)
				}
				if len(reported) != tt.reports || tt.reports > 0 && !strings.Contains(reported[0], "those that do not run") {
					t.Errorf("reported %q", reported)
				}
			})
		})
	}
}

// TestQuietEndsWithItsContext: the benchmark does not wait for a busy server once the run is over.
func TestQuietEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		e := &Env{Server: &talked{counts: true, since: began, until: began.Add(time.Hour)}}
		if err := e.quiet(ctx); err != context.DeadlineExceeded || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
