// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/capacity"
)

// TestPlanText pins what a plan looks like.
func TestPlanText(t *testing.T) {
	t.Parallel()
	p := capacity.Plan{
		Server: "redis", Version: "Redis 7.0.15", Cores: 0.75, Masters: 2, Servers: 2, Layout: "2 servers that share the names", Utilization: 0.375, Memory: 12_345_678,
		Shares:      []capacity.Share{{What: "locks that are free", Cores: 0.5}, {What: "handoffs"}, {What: "keep-alives", Cores: 0.25}},
		Connections: 6000, EachConnections: 3000, Sessions: 4000, KeepAlives: 946, P50: 45.2, P99: 1234, Handoff: 210, Recovery: 0.5, Headroom: 30,
		Traffic: 2.5e12, Billed: 1.25e12, Limits: []string{"spread the names"},
	}
	const want = `servers       2 servers that share the names, 38 % busy without waking up (planned: at most 60 %)
cores         0.75 in all
               0.500  locks that are free
               0.250  keep-alives
memory        12.3 MB
connections   6000, to one server 3000
keep-alives   946 per second, of 4000 sessions
lock, unlock  p50 45µs, p99 1.234ms
handoff       p50 210µs
failover      0.50 s until all sessions and leases are known again; a TTL is 30.0 times as long; with grace no new lock for one max_ttl after it
traffic       2.5 TB in 30 days, 1.25 TB of it between zones
limit         spread the names
measured on   Redis 7.0.15
`
	if strings.Contains(planText(p), "latencies") {
		t.Error("latencies that come with the program look measured now")
	}
	if got := planText(p); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	contains(t, planText(capacity.Plan{Layout: "1 server"}), "servers       1 server, 0 % busy", "memory        not measured on this server")
}

// TestPlanCountsServerProcesses: text, JSON and picture have replicas and all nodes of a quorum or an ensemble.
func TestPlanCountsServerProcesses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args, want string
		servers    int
	}{
		{"redis", "1 server, ", 1},
		{"redis --rate 100000", "2 servers that share the names, ", 2},
		{"cluster", "6 servers: 3 masters that share the names, and a replica of each, ", 6},
		{"quorum", "5 servers: one quorum, ", 5},
		{"quorum --rate 40000", "10 servers: 2 quorums of 5 that share the names, ", 10},
		{"zk", "3 servers: one ensemble, ", 3},
		{"zk --rate 1500", "6 servers: 2 ensembles of 3 that share the names, ", 6},
		{"etcd", "1 server, ", 1},
	} {
		picture := filepath.Join(t.TempDir(), "plan.svg")
		args := append([]string{"plan", "--picture", picture, "--server"}, strings.Fields(tt.args)...)
		contains(t, fencelockCLI(t, "", args...).want(0).out.String(), "servers       "+tt.want)
		drawn, err := os.ReadFile(picture)
		if err != nil {
			t.Fatal(err)
		}
		contains(t, string(drawn), tt.want)
		var p capacity.Plan
		out := fencelockCLI(t, "", append(args, "-o", "json")...).want(0).out.String()
		if err := json.Unmarshal([]byte(out), &p); err != nil || p.Servers != tt.servers {
			t.Errorf("%s: %d servers, want %d (%v)", tt.args, p.Servers, tt.servers, err)
		}
	}
}

// TestPlanOfEveryServer: every server that the help names has a plan, as text and as JSON.
func TestPlanOfEveryServer(t *testing.T) {
	t.Parallel()
	for _, k := range capacity.Kinds {
		contains(t, fencelockCLI(t, "", "plan", "--help").want(0).out.String(), k.Name)
		contains(t, fencelockCLI(t, "", "plan", "--server", k.Name).want(0).out.String(), "lock, unlock", "measured on", ", 0 B of it between zones")
		out := fencelockCLI(t, "", "plan", "--server", k.Name, "--processes", "2000", "--rate", "3000", "-o", "json").want(0).out.String()
		var p capacity.Plan
		if err := json.Unmarshal([]byte(out), &p); err != nil || p.Server != k.Name || p.Cores <= 0 || p.Load.Held != 2000 {
			t.Errorf("%s: %v: %s", k.Name, err, out)
		}
	}
}

func TestPlanPicture(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "plan.svg")
	fencelockCLI(t, "", "plan", "--picture", file).want(0)
	text, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(text), "<svg ") {
		t.Errorf("%v: %s", err, text)
	}
	p := fencelockCLI(t, "", "plan", "--picture", filepath.Join(file, "below")).want(1)
	contains(t, p.err.String(), "--picture: ")
}

// TestPlanErrors: each says what to do.
func TestPlanErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, want string }{
		{"--server paper", "--server paper is not known: use one of redis, "},
		{"--processes 0", "at least one process is needed"},
		{"--rate -1", "must not be negative"},
		{"--rate NaN", "is not a number of acquisitions per second"},
		{"--contended 2", "use 0 to 1"},
		{"--ttl 1ms", "use 1s or more"},
		{"--server quorum --cores 8", "--cores: each node of a quorum executes the calls of locks on one core; leave the flag out"},
		{"--cores 8", "redis executes the calls of locks on one core; leave the flag out"},
	} {
		p := fencelockCLI(t, "", append([]string{"plan"}, strings.Fields(tt.args)...)...).want(64)
		contains(t, p.err.String(), tt.want)
	}
}

// TestPlanCalibrates: the latencies are those of the store, and the load is bounded.
func TestPlanCalibrates(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	began := time.Now()
	out := fencelockCLI(t, s.url(), "plan", "--calibrate", "--rtt", "1h", "-o", "json").want(0).out.String()
	took := time.Since(began)
	var p capacity.Plan
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	contains(t, fencelockCLI(t, "redis://127.0.0.1:1", "plan", "--calibrate").want(69).err.String(), "127.0.0.1:1")
	if contains(t, planText(p), "latencies     measured now, on the store"); !p.Calibrated {
		t.Error("the plan does not report that it is calibrated")
	}
	if p.P50 <= 0 || p.P50 > 1e6*took.Seconds() || p.Handoff <= 0 {
		t.Errorf("a pair takes %v µs and a handoff %v, measured in %v", p.P50, p.Handoff, took)
	}
}

// TestPlanIsNotCalibratedOnAnotherServer: the latencies of one server beside the costs of another are no plan.
func TestPlanIsNotCalibratedOnAnotherServer(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://127.0.0.1:1": "the store is redis://, and the plan is for etcd; use --server redis, or a store that begins with etcd://",
		"mem://":              "the store is mem://, for which there is no plan; use a store that begins with etcd://, or leave --calibrate out",
	} {
		contains(t, fencelockCLI(t, url, "plan", "--server", "etcd", "--calibrate").want(64).err.String(), want)
	}
	for _, k := range capacity.Kinds {
		for _, scheme := range k.Schemes {
			if err := k.Keeps(scheme); err != nil || !slices.ContainsFunc(storeKinds, func(s *storeKind) bool { return slices.Contains(s.schemes, scheme) }) {
				t.Errorf("%s: %s:// is not a store of it: %v", k.Name, scheme, err)
			}
		}
	}
}
