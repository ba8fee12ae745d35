// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// failoverPath is the kept failover of lab/load, on Redis.
var failoverPath = filepath.Join("lab", "load", "results", "events", "failover.json")

// failover is what is read of it.
type failover struct {
	Size struct {
		Sessions, Leases int
		TTL              time.Duration
	}
	Calm time.Duration
	CPU  float64
}

// reclaimsFrom is the text of the file.
const reclaimsFrom = "Reclaim is derived, not measured alone. On redis it is the server's time in lab/load/results/events/failover.json, without that of " +
	"keep-alives and of the server itself, for each lease; valkey, cluster and quorum have the same for each server that does it. " +
	"The others confirm many leases in one call, and a lock and its unlock are an upper bound."

// derive sets Reclaim. A lease that is reclaimed alone, on a server that does nothing else, costs less: in a failover the new
// master has lost its caches, feeds a replica, and shares the machine with clients that all connect again.
func (f *unitFile) derive() error {
	var kept failover
	if err := readKept(failoverPath, &kept); err != nil {
		return err
	}
	var redis float64
	for _, u := range f.Units {
		if u.Server == "redis" {
			redis = kept.reclaim(u)
		}
	}
	if !(redis > 0) {
		return errors.New("no cost of a reclaim: the units of redis, or " + failoverPath + ", are missing")
	}
	f.Reclaims = reclaimsFrom
	for _, u := range f.Units {
		switch u.Server {
		case "redis", "valkey":
			u.Reclaim = redis
		case "cluster":
			u.Reclaim = 2 * redis // the master, and at most as much its replica
		case "quorum":
			u.Reclaim = 5 * redis
		default:
			u.Reclaim = u.Pair
		}
	}
	return nil
}

// reclaim is the cost of one lease, in µs.
func (k *failover) reclaim(u *suite.Units) float64 {
	sessions, leases := float64(k.Size.Sessions), float64(k.Size.Sessions*k.Size.Leases)
	if leases == 0 {
		return 0
	}
	// A session is renewed after a third of the time that it is trusted, or up to a tenth earlier; that is its TTL without 1 %
	// for drift and 10 % as a margin.
	period := 0.95 * 0.89 / 3 * k.Size.TTL.Seconds()
	other := sessions*u.KeepAlive + k.Calm.Seconds()*(sessions/period*(u.KeepAlive+u.Wake/2)+u.Base)
	return (1e6*k.CPU - other) / leases
}

// deriveUnits does so in the file that is kept.
func deriveUnits() error {
	var f unitFile
	if err := readKept(unitsPath, &f); err != nil {
		return err
	}
	if err := f.derive(); err != nil {
		return err
	}
	return writeKept(unitsPath, f)
}
