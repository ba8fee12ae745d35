// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/fencelock/fencelock/lab/internal/checkout"

// run is something to be run before a release.
type run struct {
	name    string
	command string
	// measures are the folders whose change makes a result older; that of the stores always does.
	measures []string
}

// target is a run of a target of the Makefile.
func target(name string, measures ...string) run { return run{name, "make -s " + name, measures} }

// suite is a run of all benchmarks of one server.
func suite(name string) run {
	return run{"bench-" + name, "go run ./lab/bench -suite " + name, []string{"lab/bench"}}
}

// runs are in the order of what they tell in a minute: if there is no time for all, the last ones are missing.
var runs = []run{
	target("figures-house"), target("figures-api"), target("figures-docs"),
	target("figures-core", "lab/bench"), target("figures-redis", "lab/bench"), target("figures-stores", "lab/bench"),
	target("figures-linger", "lab/bench"), target("figures-quorum"), target("figures-grace"),
	target("figures-cli", "cmd"), target("figures-serve", "cmd"), target("figures-vet", "vet"),
	{"torture-redis", "make -s torture PART=redis", []string{"lab/torture"}},
	{"torture-others", "make -s torture PART=others", []string{"lab/torture"}},
	target("torture-lossy", "lab/torture"), target("torture-linger", "lab/torture"), target("torture-broken", "lab/torture"),
	target("figures-fence", "fence"), target("figures-track"), target("figures-redis-tests"), target("figures-redis-long", "lab/bench"),
	target("interop", "lab/interop"), target("events", "lab/load/internal/event", "lab/load/internal/results"), target("figures-adapters", "adapters"),
	target("race-redis"), target("race"),
	{"fuzz", "make -s fuzz FUZZTIME=20s", nil},
	target("million"), target("model"), target("model-redis"),
	target("figures-interop", "lab/interop"), target("scale", "lab/bench"), target("soak", "lab/load/internal/soak", "lab/load/internal/results"),
	suite("redis"), suite("quorum"), suite("etcd"), suite("zk"), suite("postgres"), suite("mariadb"), suite("memcached"),
	target("torture-peers", "lab/torture"), target("figures-scale", "lab/load"), target("compat"),
}

// missing returns the runs without a result of the code that is checked out.
func missing() ([]run, error) {
	var left []run
	for _, r := range runs {
		why, err := r.older()
		if err != nil {
			return nil, err
		}
		if why != "" {
			left = append(left, r)
		}
	}
	return left, nil
}

// older says why a run has to be run again, or "".
func (r run) older() (string, error) {
	res, err := read(r)
	switch {
	case err != nil:
		return "", err
	case res.commit == "":
		return "not run", nil
	case !res.passed:
		return "failed", nil
	}
	return checkout.Older(".", res.commit, append([]string{"store"}, r.measures...)...)
}
