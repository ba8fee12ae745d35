// SPDX-License-Identifier: Apache-2.0

// Package suite has what is measured. A suite is what is run on one server, one
// file each; its parts are made of a few kinds of measurement, one file each too:
//
//	redis.go, native.go
//	    ╰──▶ uncontended.go, contended.go, growth.go, idle.go, holding.go, faults.go
//
// A measurement runs its candidates in turn, again and again, and returns a cell for
// each candidate and case, with a sample for each repetition:
//
//	repetition 1:  A B C   repetition 2:  B C A   repetition 3:  C A B   ...
//
// Ratios are taken within a repetition, because the load of a machine changes from
// one to the next; what is reported is the median of the ratios.
//
// To add a suite, write a file with a Suite and put it into All.
package suite

import (
	"context"
	"fmt"
	"slices"

	"github.com/fencelock/fencelock/lab/bench/internal/target"
)

// Suite is what is run on one server.
type Suite struct {
	Name string
	// Start starts the server.
	Start func(ctx context.Context) (target.Server, error)
	Parts []*Part
}

// All are the suites.
var All = []*Suite{Redis, Quorum, Etcd, ZooKeeper, Postgres, MariaDB, Memcached}

// Part is one question, with its table and its chart.
type Part struct {
	Name, Title string
	// Text says what is done, for the report.
	Text string
	// Metrics are the columns of the table, the most important first.
	Metrics []string
	// Ratio is the metric that is divided by that of the bare candidate, if any;
	// Bare overrules what the candidates say about theirs.
	Ratio string
	Bare  string
	// Long parts run only when they are named.
	Long bool
	// Chart is what to draw.
	Chart Chart
	Run   func(ctx context.Context, e *Env) (Cells, error)
}

// Chart says how to draw a part: a line for each candidate over the numbers that
// its cases begin with, or, with Bars set, a group of bars for each case.
type Chart struct {
	Metric, X string
	Bars      bool
}

// Named returns the suite of that name.
func Named(name string) (*Suite, error) {
	var known []string
	for _, s := range All {
		if s.Name == name {
			return s, nil
		}
		known = append(known, s.Name)
	}
	return nil, fmt.Errorf("no suite is called %q; there are %v", name, known)
}

// Only returns the parts of those names. Without names it returns all that are not long.
func (s *Suite) Only(names []string) ([]*Part, error) {
	var parts []*Part
	var known []string
	for _, p := range s.Parts {
		known = append(known, p.Name)
		if slices.Contains(names, p.Name) || len(names) == 0 && !p.Long {
			parts = append(parts, p)
		}
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("suite %s has no part %q; there are %v", s.Name, n, known)
		}
	}
	return parts, nil
}
