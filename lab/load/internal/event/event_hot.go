// SPDX-License-Identifier: Apache-2.0

package event

import (
	"context"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// hot kills the holder of a lock for which all sessions wait. They are served one after the other.
func hot(_ context.Context, s size) (*Result, error) {
	server, err := servers.Redis.Start("--maxclients", "20000")
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	holder, err := launch(Config{Addr: server.Addr}, size{Processes: 1, Sessions: 1, TTL: s.TTL})
	if err != nil {
		return nil, err
	}
	defer holder.kill()
	if _, err := holder.send(Order{Op: "hold", Name: "hot", Leases: 1}); err != nil {
		return nil, err
	}
	f, err := launch(Config{Addr: server.Addr}, s)
	if err != nil {
		return nil, err
	}
	defer f.kill()
	lock := nameOf("hot", 0, 0)
	if _, err := f.send(Order{Op: "queue", Name: lock}); err != nil {
		return nil, err
	}
	if err := servers.Await("all sessions wait", func() bool { return queued(server, lock) >= s.Sessions }); err != nil {
		return nil, err
	}
	time.Sleep(s.TTL / 2) // so that they have all done what follows a start
	r := &Result{Began: time.Now().UTC().Truncate(time.Second)}
	l := watch(server)
	began := time.Now()
	holder.kill()
	t, h, err := f.await("every waiter is served", 10*s.TTL, func(t Reply) bool { return t.Served+t.EndedSessions >= int64(s.Sessions) })
	if err != nil {
		return nil, err
	}
	first, last := time.UnixMilli(t.FirstServed), time.UnixMilli(t.LastServed)
	r.Calm = last.Sub(began)
	r.PeakCPU, r.CPU, r.Connections = l.end()
	r.Lost, r.Why = t.Lost, t.Why
	r.Arrivals = sum(began, r.Calm, h...)
	waiting := sum(began, first.Sub(began), h...)
	r.note("seconds until the first waiter was served", first.Sub(began).Seconds())
	r.note("seconds from the first waiter to the last", last.Sub(first).Seconds())
	r.note("requests in 100 ms while the dead session lasted, the most as a multiple of the mean", waiting.peakVsMean())
	r.note("waiters served", float64(t.Served))
	return r, nil
}

// queued is how many claims wait for a lock: its list has two elements for each of them and for the holder.
func queued(s *servers.RedisServer, name string) int {
	n, _ := s.Do("LLEN", "fencelock:{fencelock:0}:l:"+name).Int()
	return n/2 - 1
}
