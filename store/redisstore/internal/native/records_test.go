// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// TestBatchesWhateverTheRecord: calls that are made at the same time are batched into one,
// even if each of them has a different reason or is part of a different trace. Each lock
// keeps its own record.
func TestBatchesWhateverTheRecord(t *testing.T) {
	t.Parallel()
	// Every acquisition has its own trace, as with otelfencelock.
	var calls atomic.Int64
	trace := func(ctx context.Context) string { return fmt.Sprintf("%v-%d", ctx.Value(goroutine{}), calls.Add(1)) }
	cases := map[string]struct {
		hooks fencelock.Hooks
		opts  func(i int) []fencelock.LockOption
		want  func(i int, h fencelock.Holder) bool
	}{
		"plain": {
			opts: func(int) []fencelock.LockOption { return nil },
			want: func(_ int, h fencelock.Holder) bool { return h.Record.Reason == "" && h.Record.Trace == "" },
		},
		"reason": {
			opts: func(i int) []fencelock.LockOption {
				return []fencelock.LockOption{fencelock.Reason(fmt.Sprint("reason ", i))}
			},
			want: func(i int, h fencelock.Holder) bool { return h.Record.Reason == fmt.Sprint("reason ", i) },
		},
		"trace": {
			hooks: fencelock.Hooks{TraceParent: trace},
			opts:  func(int) []fencelock.LockOption { return nil },
			want:  func(i int, h fencelock.Holder) bool { return strings.HasPrefix(h.Record.Trace, fmt.Sprint(i, "-")) },
		},
	}
	for _, lib := range libraries {
		for name, c := range cases {
			t.Run(lib.name+"/"+name, func(t *testing.T) {
				server := redistest.Start(t)
				store := lib.open(t, login{Addr: server.Addr}, nil)
				client, err := fencelock.New(store, &fencelock.Options{Hooks: c.hooks})
				must.OK(t, err)
				t.Cleanup(func() { _ = client.Close(context.Background()) })
				const goroutines, rounds = 64, 20
				before := evaluations(t, server)
				lockAtOnce(t, client, goroutines, rounds, c.opts)
				sent, operations := evaluations(t, server)-before, 2*goroutines*rounds
				t.Logf("%d operations in %d calls", operations, sent)
				// Locks with different records that do not travel together take a call each. How many do depends on how
				// fast the server answers: with rueidis between a seventh and a third.
				if sent*2 > operations {
					t.Errorf("%d operations took %d calls, want half of them at most", operations, sent)
				}
				holdAtOnce(t, client, goroutines, c.opts, c.want)
			})
		}
	}
}

// goroutine is the key of a goroutine's number in its context.
type goroutine struct{}

// lockAtOnce acquires and releases locks in several goroutines, one lock per goroutine.
func lockAtOnce(t *testing.T, client *fencelock.Client, goroutines, rounds int, opts func(int) []fencelock.LockOption) {
	t.Helper()
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			ctx := context.WithValue(t.Context(), goroutine{}, i)
			mu := client.Mutex(fmt.Sprint("lock ", i), opts(i)...)
			for range rounds {
				l, err := mu.Lock(ctx)
				if err != nil {
					t.Errorf("lock %d: %v", i, err)
					return
				}
				if err := l.Unlock(ctx); err != nil {
					t.Errorf("unlock %d: %v", i, err)
				}
			}
		})
	}
	all.Wait()
}

// holdAtOnce acquires locks at the same time and checks their holders.
func holdAtOnce(t *testing.T, client *fencelock.Client, n int, opts func(int) []fencelock.LockOption, want func(int, fencelock.Holder) bool) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			name, ctx := fmt.Sprint("held ", i), context.WithValue(t.Context(), goroutine{}, i)
			if _, err := client.Mutex(name, opts(i)...).Lock(ctx); err != nil {
				t.Errorf("lock %d: %v", i, err)
				return
			}
			st, err := client.Inspect(ctx, name)
			if err != nil || len(st.Holders) != 1 || !want(i, st.Holders[0]) {
				t.Errorf("%s is held by %+v, %v", name, st.Holders, err)
			}
		})
	}
	all.Wait()
}

var evaluated = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`)

// evaluations is how many scripts the server has run.
func evaluations(t *testing.T, server *redistest.Server) (n int) {
	t.Helper()
	text, err := server.Do("INFO", "commandstats").Text()
	must.OK(t, err)
	for _, m := range evaluated.FindAllStringSubmatch(text, -1) {
		calls, _ := strconv.Atoi(m[1])
		n += calls
	}
	return n
}
