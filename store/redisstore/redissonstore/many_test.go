// SPDX-License-Identifier: Apache-2.0

package redissonstore_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// gathering is a slow network: it lets scripts through only when so many of them are under way.
type gathering struct {
	mu       sync.Mutex
	on, past bool // past the first script of a renewal, which is alone
	want     int
	under    int
	most     int
	complete chan struct{}
}

// DialHook implements redis.Hook.
func (*gathering) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (*gathering) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (g *gathering) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !strings.HasPrefix(cmd.Name(), "eval") {
			return next(ctx, cmd)
		}
		g.mu.Lock()
		if !g.past {
			g.past = g.on
			g.mu.Unlock()
			return next(ctx, cmd)
		}
		g.under++
		if g.under > g.most {
			if g.most = g.under; g.most == g.want {
				close(g.complete)
			}
		}
		g.mu.Unlock()
		defer func() { g.mu.Lock(); g.under--; g.mu.Unlock() }()
		select {
		case <-g.complete:
		case <-ctx.Done():
		}
		return next(ctx, cmd)
	}
}

var expiries = regexp.MustCompile(`cmdstat_pexpire:calls=(\d+)`)

// TestRenewalOfManyLeases: a script renews at most 250 of them, because the server runs nothing
// else in the meantime, and several scripts are under way at once, because one after the other
// would take a round trip for each.
func TestRenewalOfManyLeases(t *testing.T) {
	t.Parallel()
	const leases, perScript, atOnce = 5000, 250, 8
	server := redistest.Start(t)
	slow := &gathering{want: atOnce, complete: make(chan struct{})}
	s, _ := open(t, newStore(t, server, nil, slow))
	var workers sync.WaitGroup
	for w := range 10 {
		workers.Go(func() {
			for i := w; i < leases; i += 10 {
				if out, err := s.Attempt(t.Context(), claim(uint64(i+1), fmt.Sprint("x", i))); err != nil || out.State != driver.Granted {
					t.Errorf("claim %d is %v, %v", i+1, out.State, err)
				}
			}
		})
	}
	workers.Wait()
	_, err := s.KeepAlive(t.Context()) // loads the script
	must.OK(t, err)
	must.OK(t, server.Do("CONFIG", "RESETSTAT").Err())
	slow.mu.Lock()
	slow.on = true
	slow.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	renewal, err := s.KeepAlive(ctx)
	must.OK(t, err)
	if len(renewal.Broken) > 0 {
		t.Errorf("%d leases were reported broken", len(renewal.Broken))
	}
	text, err := server.Do("INFO", "commandstats").Text()
	must.OK(t, err)
	m := expiries.FindStringSubmatch(text)
	if m == nil {
		t.Fatal("nothing was renewed")
	}
	renewed, err := strconv.Atoi(m[1])
	must.OK(t, err)
	if sent := scripts(t, server); sent > leases/perScript+2 || renewed < leases || renewed > leases+10 {
		t.Errorf("%d scripts renewed %d keys of %d leases", sent, renewed, leases)
	}
	if slow.most != atOnce {
		t.Errorf("at most %d scripts were under way at once, want %d", slow.most, atOnce)
	}
}
