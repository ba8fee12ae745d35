// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// unusedClient is a client that is never called.
type unusedClient struct {
	rediscmd.Client
	sharded bool
}

func (n unusedClient) Sharded() bool                                  { return n.sharded }
func (n unusedClient) Nodes(context.Context) ([]rediscmd.Node, error) { return nil, nil }

// sound is INFO of a server that is fit.
var sound = map[string]string{
	"redis_version": "7.0.15", "redis_mode": "standalone", "role": "master", "connected_slaves": "0",
	"maxmemory": "0", "maxmemory_policy": "noeviction",
}

const soundRun = "c5e4f0a6b1"

// with is a fit server but for some fields; an empty one is missing.
func with(pairs ...string) facts {
	f := facts{addr: "a:1", info: maps.Clone(sound), runs: []string{soundRun, soundRun}}
	for i := 0; i < len(pairs); i += 2 {
		f.info[pairs[i]] = pairs[i+1]
		if pairs[i+1] == "" {
			delete(f.info, pairs[i])
		}
	}
	return f
}

// unscripted is a server whose scripts may not call something.
func unscripted(what string) facts {
	f := with()
	f.unscripted = []string{what}
	return f
}

// judged are the findings about what a server said.
var judged = []struct {
	name           string
	facts          facts
	grace, sharded bool
	want           string // severity and code, joined by commas
}{
	{name: "sound", facts: with()},
	{name: "oldest", facts: with("redis_version", "7.0.0")},
	{name: "too old", facts: with("redis_version", "6.2.14"), want: "danger version"},
	{name: "a Sentinel", facts: with("redis_mode", "sentinel", "maxmemory_policy", ""), want: "danger sentinel,note eviction-unchecked"},
	{name: "scripts may not ask for the time", facts: unscripted("TIME (ERR not allowed from script)"), want: "danger scripts-restricted"},
	{name: "cluster", facts: with("redis_mode", "cluster"), sharded: true},
	{name: "cluster without a cluster client", facts: with("redis_mode", "cluster"), want: "danger cluster-client"},
	{name: "cluster of Valkey without a cluster client", facts: with("redis_mode", "", "server_mode", "cluster"), want: "danger cluster-client"},
	{name: "no version", facts: with("redis_version", ""), want: "note version-unchecked"},
	{name: "replica", facts: with("role", "slave"), want: "danger replica"},
	{name: "replicas", facts: with("connected_slaves", "2"), want: "warning replicas-without-grace"},
	{name: "replicas and grace", facts: with("connected_slaves", "2"), grace: true, want: "warning min-replicas"},
	{name: "replicas, grace and a master that needs them", facts: with("connected_slaves", "2", "min_slaves_good_slaves", "2"), grace: true, want: "warning margin"},
	{name: "a master that needs its only replica", facts: with("connected_slaves", "1", "min_slaves_good_slaves", "1"), grace: true, want: "note spare-replica,warning margin"},
	{name: "replicas and grace in a cluster", facts: with("connected_slaves", "2", "redis_mode", "cluster"), grace: true, sharded: true, want: "warning margin"},
	{name: "evicts", facts: with("maxmemory", "1000", "maxmemory_policy", "allkeys-lru"), want: "danger eviction"},
	{name: "evicts in spite of grace", facts: with("maxmemory", "1000", "maxmemory_policy", "allkeys-lru"), grace: true, want: "danger eviction"},
	{name: "would evict", facts: with("maxmemory_policy", "allkeys-random"), grace: true, want: "warning eviction"},
	{name: "evicts others", facts: with("maxmemory", "1000", "maxmemory_policy", "volatile-lru")},
	{name: "no policy", facts: with("maxmemory_policy", ""), want: "note eviction-unchecked"},
	{name: "two servers", facts: facts{info: sound, runs: []string{"a", "b", "a"}}, want: "danger proxy"},
	{name: "no run id", facts: facts{info: sound, runs: []string{"", ""}}, want: "danger run-id"},
	{name: "no INFO", facts: facts{infoErr: errors.New("NOPERM")}, want: "danger info-forbidden,note unchecked"},
	{name: "has no INFO", facts: facts{infoErr: errors.New("ERR unknown command 'INFO'")}, want: "danger commands-missing"},
	{name: "has no HSET", facts: facts{info: sound, runs: []string{soundRun}, missing: []string{"hset"}}, want: "danger commands-missing"},
	{name: "forbidden", facts: facts{info: sound, runs: []string{soundRun}, forbidden: []string{"hset"}}, want: "danger commands-forbidden"},
	{name: "permissions hidden", facts: facts{info: sound, runs: []string{soundRun}, permitsErr: errors.New("old")}, want: "note permissions-unchecked"},
	{name: "clock behind", facts: facts{info: sound, runs: []string{soundRun}, ahead: -time.Hour}, want: "warning clock"},
	{name: "clock ahead", facts: facts{info: sound, runs: []string{soundRun}, ahead: 3 * time.Second, trip: time.Second}, want: "warning clock"},
	{name: "slow answer", facts: facts{info: sound, runs: []string{soundRun}, ahead: 3 * time.Second, trip: 4 * time.Second}},
	{name: "no TIME", facts: facts{info: sound, runs: []string{soundRun}, ahead: time.Hour, timeErr: errors.New("no")}},
}

func TestJudge(t *testing.T) {
	seen := map[string]bool{"unused": true, "grace-not-asked": true} // which Check finds, with a store
	for _, tt := range judged {
		t.Run(tt.name, func(t *testing.T) {
			s, err := New(unusedClient{sharded: tt.sharded}, &Options{Grace: tt.grace}, nil)
			must.OK(t, err)
			var got []string
			for _, f := range s.judge(tt.facts) {
				got = append(got, f.Severity.String()+" "+f.Code)
				seen[f.Code] = true
				if f.Reason == "" || f.Fix == "" || strings.Contains(f.String(), "%!") {
					t.Errorf("incomplete: %+v", f)
				}
			}
			slices.Sort(got)
			if text := strings.Join(got, ","); text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, slices.Sorted(slices.Values(codes))) {
		t.Errorf("findings with the codes %v, want each of %v", got, codes)
	}
}
