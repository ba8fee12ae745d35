// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// runsPath is where real runs are kept that simulation and plan are compared with.
var runsPath = filepath.Join("docs", "scale", "runs.json")

// runsFile is what is written.
type runsFile struct {
	origin
	Runs []*suite.RealRun
}

// mixes are the fleets that are run on every server. None of them is how the unit costs are measured.
var mixes = []suite.Mix{
	{Name: "few processes, mostly idle", Free: 8, Idle: 16, Pause: 25 * time.Millisecond},
	{Name: "processes that lock often", Free: 48, Idle: 8, Pause: 10 * time.Millisecond},
	{Name: "as fast as they can", Free: 6},
	{Name: "locks that are waited for", Groups: 3},
	{Name: "all of these", Free: 24, Groups: 2, Idle: 30, Pause: 10 * time.Millisecond},
	{Name: "processes that hold a lock", Idle: 80},
}

// writeRuns runs the mixes on the servers that are wanted and writes them beside those of before.
func writeRuns(ctx context.Context, e *suite.Env, only selection) error {
	var f runsFile
	if err := readKept(runsPath, &f); err != nil {
		return err
	}
	f.origin = thisOrigin()
	return eachServer(ctx, e, only, func(s unitServer, there *suite.Env) error {
		runs, err := s.runs(ctx, there)
		if err != nil {
			return err
		}
		f.put(s.name, runs)
		return writeKept(runsPath, f)
	})
}

func (s unitServer) runs(ctx context.Context, there *suite.Env) ([]*suite.RealRun, error) {
	var runs []*suite.RealRun
	for _, m := range mixes {
		r, err := there.RealRun(ctx, s.ours, m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		r.Server = s.name
		r.Cores /= s.counted
		r.Memory /= s.counted
		fmt.Printf("%+v\n", *r)
		runs = append(runs, r)
	}
	return runs, nil
}

// put replaces the runs of a server.
func (f *runsFile) put(server string, runs []*suite.RealRun) {
	var all []*suite.RealRun
	for _, r := range f.Runs {
		if r.Server != server {
			all = append(all, r)
		}
	}
	f.Runs = append(all, runs...)
}
