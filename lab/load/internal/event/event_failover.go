// SPDX-License-Identifier: Apache-2.0

package event

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// missed is one in how many sessions acquires a last lease that the replica misses.
const missed = 10

// failover replaces the master by a replica that has missed the last leases. With grace every session finds out
// and reclaims its leases; no other client gets any lock until each of them had the time for it.
func failover(ctx context.Context, s size) (*Result, error) {
	rig, err := servers.Redis.StartSentinels(2 * time.Second)
	if err != nil {
		return nil, err
	}
	defer rig.Stop()
	f, err := launch(Config{Sentinels: rig.Addrs, Master: servers.MasterName, Grace: true}, s)
	if err != nil {
		return nil, err
	}
	defer f.kill()
	began := time.Now()
	if _, err := f.send(Order{Op: "hold", Name: "kept", Leases: s.Leases}); err != nil {
		return nil, err
	}
	setup := time.Since(began)
	old, err := rig.Master()
	if err != nil {
		return nil, err
	}
	if err := old.CutReplicas(); err != nil {
		return nil, err
	}
	if _, err := f.send(Order{Op: "hold", Name: "missed", Leases: 1, Every: missed}); err != nil {
		return nil, err
	}
	return failed(f, rig, old, s, setup)
}

// failed kills the master and measures until all is calm.
func failed(f fleet, rig *servers.Sentinels, old *servers.RedisServer, s size, setup time.Duration) (*Result, error) {
	r := &Result{Began: time.Now().UTC().Truncate(time.Second)}
	began := time.Now()
	old.Kill()
	master, err := rig.AwaitPromoted(old)
	if err != nil {
		return nil, err
	}
	promoted := time.Since(began)
	l := watch(master)
	t, _, err := f.await("every session has resumed", 3*s.TTL, func(t Reply) bool { return t.Resumed+t.EndedSessions >= int64(s.Sessions) })
	if err != nil {
		return nil, err
	}
	resumed := time.UnixMilli(t.LastResumed).Sub(began)
	// Nothing is granted before the grace period ends: another client finds out when that is.
	other, err := launch(Config{Sentinels: rig.Addrs, Master: servers.MasterName, Grace: true}, size{Processes: 1, Sessions: 1, TTL: s.TTL})
	if err != nil {
		return nil, err
	}
	defer other.kill()
	if _, err := other.send(Order{Op: "hold", Name: "other", Leases: 1}); err != nil {
		return nil, err
	}
	r.Calm = time.Since(began)
	replies, err := f.send(Order{Op: "check"})
	if err != nil {
		return nil, err
	}
	t, h := total(replies)
	r.PeakCPU, r.CPU, r.Connections = l.end()
	all := int64(s.Sessions*s.Leases + s.Sessions/missed)
	r.Lost, r.Why = max(t.Lost, all-t.Held), t.Why
	r.Arrivals = sum(began, r.Calm, h...)
	r.note("leases", float64(all))
	r.note("seconds to acquire them", setup.Seconds())
	r.note("sessions lost", float64(t.EndedSessions))
	r.note("seconds until a replica was the master", promoted.Seconds())
	r.note("seconds until every lease was reclaimed", resumed.Seconds())
	r.note("renewals that failed", float64(t.FailedRenewal))
	r.note("texts of scripts that the new master got", float64(texts(master)))
	return r, nil
}

// texts is how often a server got the text of a script.
func texts(s *servers.RedisServer) (n int) {
	for _, command := range []string{"eval", "script|load"} {
		field := s.Info("commandstats", "cmdstat_"+command)
		calls, _, _ := strings.Cut(strings.TrimPrefix(field, "calls="), ",")
		one, _ := strconv.Atoi(calls)
		n += one
	}
	return n
}
