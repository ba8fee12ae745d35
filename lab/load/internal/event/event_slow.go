// SPDX-License-Identifier: Apache-2.0

package event

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// A slow server runs for a tenth of the time.
const (
	slowFor = 4 // TTLs
	stopped = 450 * time.Millisecond
	running = 50 * time.Millisecond
)

// slow makes the server run for a tenth of the time only, for four TTLs: a minute with the default. It answers everything,
// late.
func slow(_ context.Context, s size) (*Result, error) {
	server, err := servers.Redis.Start("--maxclients", "20000")
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	f, err := launch(Config{Addr: server.Addr}, s)
	if err != nil {
		return nil, err
	}
	defer f.kill()
	if _, err := f.send(Order{Op: "hold", Name: "kept", Leases: s.Leases}); err != nil {
		return nil, err
	}
	time.Sleep(s.TTL)
	r := &Result{Began: time.Now().UTC().Truncate(time.Second)}
	l := watch(server)
	began := time.Now()
	for time.Since(began) < slowFor*s.TTL {
		resume := server.Pause()
		time.Sleep(stopped)
		resume()
		time.Sleep(running)
	}
	healed := time.Now()
	if _, err := f.send(Order{Op: "hold", Name: "later", Leases: 1}); err != nil {
		return nil, err
	}
	r.Calm = time.Since(healed)
	replies, err := f.send(Order{Op: "check"})
	if err != nil {
		return nil, err
	}
	t, h := total(replies)
	r.PeakCPU, r.CPU, r.Connections = l.end()
	r.Lost, r.Why = max(t.Lost, int64(s.Sessions*(s.Leases+1))-t.Held), t.Why
	r.Arrivals = sum(began, healed.Sub(began), h...) // the locks after it are ordered by this program, all at once
	r.note("renewals that failed", float64(t.FailedRenewal))
	return r, nil
}
