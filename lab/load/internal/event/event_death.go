// SPDX-License-Identifier: Apache-2.0

package event

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// taken is how many of the dead client's locks others want.
const taken = 10_000

// death kills a client with many leases. Others want some of its locks; the rest is swept.
func death(ctx context.Context, s size) (*Result, error) {
	server, err := servers.Redis.Start("--maxclients", "20000")
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	dead, err := launch(Config{Addr: server.Addr}, s)
	if err != nil {
		return nil, err
	}
	defer dead.kill()
	setup := time.Now()
	if _, err := dead.send(Order{Op: "hold", Name: "kept", Leases: s.Leases}); err != nil {
		return nil, err
	}
	acquired := time.Since(setup)
	others, err := launch(Config{Addr: server.Addr}, size{Processes: 1, Sessions: 100, TTL: s.TTL})
	if err != nil {
		return nil, err
	}
	defer others.kill()
	if _, err := others.send(Order{Op: "hold", Name: "other", Leases: 1}); err != nil {
		return nil, err
	}
	r := &Result{Began: time.Now().UTC().Truncate(time.Second)}
	l := watch(server)
	began := time.Now()
	dead.kill()
	if _, err := others.send(Order{Op: "use", Name: "kept", Leases: min(taken, s.Leases) / 100}); err != nil {
		return nil, err
	}
	r.Calm = time.Since(began)
	for keys(server) > 1000 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	swept := time.Since(began)
	replies, err := others.send(Order{Op: "check"})
	if err != nil {
		return nil, err
	}
	t, h := total(replies)
	r.PeakCPU, r.CPU, r.Connections = l.end()
	r.Lost, r.Why = max(t.Lost, 100-t.Held), t.Why
	r.Arrivals = sum(began, swept, h...)
	r.note("seconds to acquire the leases", acquired.Seconds())
	r.note("locks of the dead client that others got", float64(t.Served))
	r.note("seconds until the rest was swept", swept.Seconds())
	return r, nil
}

// keys counts the keys of a server.
func keys(s *servers.RedisServer) int {
	n, _ := s.Do("DBSIZE").Int()
	return n
}
