// SPDX-License-Identifier: Apache-2.0

package event

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// restart kills all clients at once and starts them again. They want the same locks, which the dead sessions keep
// until their ends.
func restart(_ context.Context, s size) (*Result, error) {
	server, err := servers.Redis.Start("--maxclients", "20000")
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	f, err := launch(Config{Addr: server.Addr}, s)
	if err != nil {
		return nil, err
	}
	if _, err := f.send(Order{Op: "hold", Name: "kept", Leases: s.Leases}); err != nil {
		f.kill()
		return nil, err
	}
	time.Sleep(s.TTL)
	f.kill()
	r := &Result{Began: time.Now().UTC().Truncate(time.Second)}
	l := watch(server)
	began := time.Now()
	f, err = launch(Config{Addr: server.Addr}, s)
	if err != nil {
		return nil, err
	}
	defer f.kill()
	if _, err := f.send(Order{Op: "hold", Name: "kept", Leases: s.Leases}); err != nil {
		return nil, err
	}
	r.Calm = time.Since(began)
	time.Sleep(time.Until(began.Add(2 * s.TTL))) // the histogram shows what follows, too
	replies, err := f.send(Order{Op: "check"})
	if err != nil {
		return nil, err
	}
	t, h := total(replies)
	r.PeakCPU, r.CPU, r.Connections = l.end()
	r.Lost, r.Why = max(t.Lost, int64(s.Sessions*s.Leases)-t.Held), t.Why
	r.Arrivals = sum(began, 2*s.TTL, h...)
	return r, nil
}
