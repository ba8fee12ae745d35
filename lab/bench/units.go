// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/bench/internal/candidate"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
	"github.com/fencelock/fencelock/lab/bench/internal/target"
)

// unitServer is a server whose units are measured.
type unitServer struct {
	name   string
	start  func(context.Context) (target.Server, error)
	ours   *candidate.Candidate
	leases int
	// counted is the share of its servers whose time and memory are counted.
	counted float64
}

var unitServers = []unitServer{
	{"redis", target.StartRedis, candidate.FencelockRueidis, 100_000, 1},
	{"valkey", target.StartValkey, candidate.FencelockRueidis, 100_000, 1},
	{"cluster", target.StartCluster, candidate.FencelockCluster, 100_000, 1},
	{"quorum", target.StartFive, candidate.FencelockQuorum, 50_000, 4.0 / 5},
	{"etcd", target.StartEtcd, candidate.FencelockEtcd, 10_000, 1},
	{"zk", target.StartZooKeeper, candidate.FencelockZK, 10_000, 1},
	{"postgres", target.StartPostgres, candidate.FencelockPostgres, 10_000, 1},
	{"mariadb", target.StartMariaDB, candidate.FencelockMariaDB, 10_000, 1},
	{"mysql", target.StartMySQL, candidate.FencelockMySQL, 10_000, 1},
}

// unitFile is what is written.
type unitFile struct {
	origin
	// Reclaims says where Reclaim comes from.
	Reclaims string
	Units    []*suite.Units
}

// unitsPath is where lab/results/scale.md has them from.
var unitsPath = filepath.Join("lab", "results", "scale", "units.json")

// writeUnits measures the servers that are wanted and writes them down, beside those of before
// that are not.
func writeUnits(ctx context.Context, e *suite.Env, only selection) error {
	var f unitFile
	if err := readKept(unitsPath, &f); err != nil {
		return err
	}
	f.origin = thisOrigin()
	return eachServer(ctx, e, only, func(s unitServer, there *suite.Env) error {
		u, err := s.measure(ctx, there)
		if err != nil {
			return err
		}
		f.put(u)
		if err := f.derive(); err != nil {
			return err
		}
		fmt.Printf("%s: %+v\n", s.name, *u)
		return writeKept(unitsPath, f) // after each, so that half a run is not lost
	})
}

// eachServer starts the servers that are wanted, one after the other, for what is measured there.
// Those that are not installed are left out.
func eachServer(ctx context.Context, e *suite.Env, only selection, measure func(s unitServer, there *suite.Env) error) error {
	for _, s := range unitServers {
		if !only.wants(s.name) {
			continue
		}
		there := *e
		there.Start = s.start
		var err error
		there.Server, err = s.start(ctx)
		if err == nil {
			err = measure(s, &there)
			there.Server.Stop()
		}
		if errors.Is(err, servers.ErrMissing) {
			e.Progress("%s: %v", s.name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (s unitServer) measure(ctx context.Context, there *suite.Env) (*suite.Units, error) {
	u, err := there.Units(ctx, s.ours, there.Scaled(s.leases))
	if err != nil {
		return nil, err
	}
	u.Server = s.name
	for _, v := range []*float64{&u.Pair, &u.Wake, &u.Reader, &u.Handoff, &u.KeepAlive, &u.Waiting, &u.Connected, &u.Base, &u.Lease, &u.Session, &u.Claim, &u.Process} {
		*v /= s.counted
	}
	return u, nil
}

// put replaces the units of a server, or adds them.
func (f *unitFile) put(u *suite.Units) {
	for i, old := range f.Units {
		if old.Server == u.Server {
			f.Units[i] = u
			return
		}
	}
	f.Units = append(f.Units, u)
}
