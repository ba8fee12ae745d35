// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// codesOf are the findings in short.
func codesOf(found []driver.Finding) string {
	var all []string
	for _, f := range found {
		all = append(all, f.Severity.String()+" "+f.Code)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

const (
	goodServer = "Zookeeper version: 3.8.0-${commit}, built on 2024\nLatency min/avg/max: 0/0.0/0\nMode: follower\nNode count: 5\n"
	goodConf   = "clientPort=2181\ntickTime=2000\nmaxClientCnxns=60\nminSessionTimeout=4000\nmaxSessionTimeout=40000\nmembership: \n" +
		"server.1=a:2888:3888:participant\nserver.2=b:2888:3888:participant\nserver.3=c:2888:3888:participant\nserver.4=d:2888:3888:observer\nversion=0"
)

func TestJudge(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(all []report)
		want   string
	}{
		"well":           {func([]report) {}, ""},
		"down":           {func(all []report) { all[0].err = errors.New("gone") }, "warning unreachable"},
		"no majority":    {func(all []report) { all[0].srvr = "This ZooKeeper instance is not currently serving requests\n" }, "danger serving"},
		"cut off":        {func(all []report) { all[0].change("follower", "read-only") }, "danger serving"},
		"silent":         {func(all []report) { all[0].srvr = "srvr is not executed because it is not in the whitelist.\n" }, "note unchecked"},
		"no settings":    {func(all []report) { all[0].conf = "conf is not executed because it is not in the whitelist.\n" }, "note unchecked"},
		"old":            {func(all []report) { all[0].change("3.8.0", "3.4.14") }, "danger version, note version"},
		"other version":  {func(all []report) { all[0].change("3.8.0", "3.9.2") }, "note version"},
		"unknown to us":  {func(all []report) { all[0].change("Zookeeper version: 3.8.0-", "Zookeeper version: next") }, "note version"},
		"apart":          {func(all []report) { all[0].change("follower", "standalone") }, "danger separate-servers"},
		"slow ticks":     {func(all []report) { all[0].change("tickTime=2000", "tickTime=3000") }, "danger tick-time"},
		"quick ticks":    {func(all []report) { all[0].change("tickTime=2000", "tickTime=1000") }, ""},
		"short sessions": {func(all []report) { all[0].change("maxSessionTimeout=40000", "maxSessionTimeout=30000") }, "warning session-timeout"},
		"long sessions":  {func(all []report) { all[0].change("minSessionTimeout=4000", "minSessionTimeout=30000") }, "note session-timeout"},
		"more servers":   {func(all []report) { all[0].conf += "\nserver.5=e:2888:3888:participant" }, "note member"},
	} {
		s, err := New([]string{"a:2181", "b:2181", "c:2181"}, Options{})
		must.OK(t, err)
		var all []report
		for _, server := range s.servers {
			all = append(all, report{server: server, srvr: goodServer, conf: goodConf})
		}
		tt.change(all)
		found := s.judge(all)
		if got := codesOf(found); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
		for _, f := range found {
			if f.Reason == "" || f.Fix == "" || strings.Contains(f.String(), "%!") {
				t.Errorf("%s: %v", name, f)
			}
		}
	}
}

func (r *report) change(from, to string) {
	r.srvr, r.conf = strings.ReplaceAll(r.srvr, from, to), strings.ReplaceAll(r.conf, from, to)
}

func TestJudgeMembers(t *testing.T) {
	for _, tt := range []struct {
		known, standalone, voters int
		want                      string
	}{
		{1, 1, 0, "note standalone"}, {1, 0, 3, "note member"}, {4, 0, 4, "note member"}, {3, 0, 3, ""}, {3, 0, 0, ""}, {3, 3, 0, "danger separate-servers"},
	} {
		var found findings
		judgeMembers(&found, tt.known, tt.standalone, tt.voters)
		if got := codesOf(found); got != tt.want {
			t.Errorf("%+v: got %s", tt, got)
		}
	}
}

// TestCheck asks real servers: well, with a server down, as strangers to each other, and none.
func TestCheck(t *testing.T) {
	t.Parallel()
	start := func(n int) *servers.Ensemble {
		return servers.Test(t, func() (*servers.Ensemble, error) { return servers.ZooKeeper(n) })
	}
	check := func(opts *Options, addrs ...string) string {
		t.Helper()
		s, err := New(addrs, *opts)
		must.OK(t, err)
		defer s.Close()
		found, err := s.Check(t.Context())
		if err != nil {
			return err.Error()
		}
		return codesOf(found)
	}
	want := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
	}
	opts := &Options{TickTime: servers.TickTime, MinTTL: time.Second, MaxTTL: 30 * time.Second}
	three, one := start(3), start(1)
	addrs := three.Addrs()
	want("three", check(opts, addrs...), "")
	want("one of three is known", check(opts, addrs[0]), "note member")
	want("one", check(opts, one.Addrs()...), "note standalone")
	want("too long", check(&Options{TickTime: servers.TickTime, MaxTTL: time.Minute}, addrs...), "warning session-timeout, warning session-timeout, warning session-timeout")
	want("ticks", check(&Options{TickTime: servers.TickTime / 2, MinTTL: time.Second}, one.Addrs()...), "danger tick-time, note standalone")
	want("strangers", check(opts, addrs[0], one.Addrs()[0]), "danger separate-servers")
	three.Servers[0].Kill()
	want("one is down", check(opts, addrs...), "warning unreachable")
	if got := check(opts, addrs[0]); !strings.HasPrefix(got, "zkstore: check: ") || !strings.Contains(got, driver.ErrUnavailable.Error()) {
		t.Errorf("no server answers: got %s", got)
	}
}
