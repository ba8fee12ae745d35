// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/capacity"
)

func (a *app) planCommand() *cobra.Command {
	p := &planner{app: a}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Compute what servers a fleet needs",
		Long: `Compute what servers a fleet needs: cores, memory, connections, latencies, how long a
failover takes, and the traffic of a month.

The plan adds up what one lock, handoff, keep-alive and connection costs a server. These
costs were measured with the server version that the output names, on one machine with
two cores (docs/scale.md). Your server may be twice as fast or half as fast.

--calibrate measures the latencies on the store of --store: one worker, then two, for two
seconds each, in the namespace ` + benchNamespace + `. The processor time stays that of the
measured machine.

  --server     redis, valkey, cluster, quorum, etcd, zk, postgres, mariadb, mysql
  --locks      how many are held at once, by all processes together
  --rate       how many are acquired per second, by all processes together
  --contended  the share of these that wait for another process

The exit code is 0, even if the plan has limits; 64 if a flag is wrong; 69 if the store
of --calibrate does not answer.`,
		Example: `  fencelock plan --server redis --processes 2000 --locks 50000 --rate 3000 --contended 0.1
  fencelock plan --server cluster --processes 10000 --rate 100000 -o json
  fencelock plan --server redis --processes 500 --rate 1000 --picture plan.svg`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return p.main(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&p.server, "server", "redis", "the kind of server")
	f.IntVar(&p.load.Processes, "processes", 100, "how many processes, with a session each")
	f.IntVar(&p.load.Held, "locks", 0, "how many locks are held at once (default one for each process)")
	f.Float64Var(&p.load.Rate, "rate", 100, "acquisitions per second")
	f.Float64Var(&p.load.Contended, "contended", 0, "share of acquisitions that wait, 0 to 1")
	f.IntVar(&p.load.Waiting, "waiting", 0, "how many claims wait at once (default: each contended one waits for a second)")
	f.DurationVar(&p.load.TTL, "ttl", fencelock.DefaultTTL, "TTL of the sessions")
	f.DurationVar(&p.load.RoundTrip, "rtt", 0, "round trip to the server (default that of one machine)")
	f.Float64Var(&p.load.Cross, "cross-zone", 0, "share of processes in another zone than the server, 0 to 1")
	f.IntVar(&p.cores, "cores", 0, "cores of each server, where it can use several (default 4)")
	f.BoolVar(&p.calibrate, "calibrate", false, "measure the latencies on --store first")
	f.StringVar(&p.picture, "picture", "", "write a picture to this file, as SVG")
	a.formatFlag(cmd, "text", "json")
	return cmd
}

type planner struct {
	*app
	server, picture string
	load            capacity.Load
	cores           int
	calibrate       bool
}

func (p *planner) main(ctx context.Context) error {
	if p.load.Held == 0 {
		p.load.Held = p.load.Processes
	}
	if p.load.Waiting == 0 {
		p.load.Waiting = int(p.load.Rate * p.load.Contended)
	}
	if err := p.load.Check(); err != nil {
		return usage("%v", err)
	}
	kind, units, err := capacity.Measured(p.server)
	if err != nil {
		return usage("%v", err)
	}
	switch {
	case p.cores < 0:
		return usage("--cores %d must not be negative", p.cores)
	case p.cores > 0:
		if err := kind.OneCore(); err != nil {
			return usage("%v", err)
		}
		kind.Cores = p.cores
	}
	if p.calibrate {
		url, err := p.urlOfStore()
		if err != nil {
			return err
		}
		if scheme, _, named := strings.Cut(url, "://"); named {
			if err := kind.Keeps(scheme); err != nil {
				return usage("%v", err)
			}
		}
		if err := p.measure(ctx, &units); err != nil {
			return err
		}
	}
	plan := capacity.Compute(kind, units, p.load)
	if p.picture != "" {
		if err := os.WriteFile(p.picture, []byte(capacity.Picture(kind, units, plan)), 0o644); err != nil {
			return fmt.Errorf("--picture: %w", err)
		}
		p.note("the picture is in %s", p.picture)
	}
	if p.format == "json" {
		return printJSON(p.out, plan)
	}
	_, err = fmt.Fprint(p.out, planText(plan))
	return err
}

// measure replaces the latencies by those of the store.
func (p *planner) measure(parent context.Context, u *capacity.Units) error {
	ctx, stop := untilSignal(parent)
	defer stop()
	b := &bench{app: p.app, length: 2 * time.Second, workers: 1}
	clients, done, err := b.clients(ctx)
	if err != nil {
		return err
	}
	defer done()
	own, err := b.own(ctx, clients[0])
	if err != nil {
		return err
	}
	one, err := b.one(ctx, clients)
	if err != nil {
		return err
	}
	u.PairLatency, u.HandoffLatency, u.Calibrated = 1000*own.MedianMS, 1000*one.MedianMS, true
	p.load.RoundTrip = 0 // it is in what was measured
	return nil
}

// planText is a plan for people.
func planText(p capacity.Plan) string {
	var b strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s"+format+"\n", append([]any{what}, args...)...)
	}
	line("servers", "%s, %.0f %% busy without waking up (planned: at most %.0f %%)", p.Layout, 100*p.Utilization, 100*capacity.Busy)
	line("cores", "%.2f in all", p.Cores)
	for _, s := range p.Shares {
		if s.Cores > 0 {
			line("", "%6.3f  %s", s.Cores, s.What)
		}
	}
	if p.Memory > 0 {
		line("memory", "%s", sizeOf(p.Memory))
	} else {
		line("memory", "not measured on this server")
	}
	line("connections", "%.0f, to one server %.0f", p.Connections, p.EachConnections)
	line("keep-alives", "%.0f per second, of %.0f sessions", p.KeepAlives, p.Sessions)
	line("lock, unlock", "p50 %s, p99 %s", micros(p.P50), micros(p.P99))
	line("handoff", "p50 %s", micros(p.Handoff))
	line("failover", "%.2f s until all sessions and leases are known again; a TTL is %.1f times as long; with grace no new lock for one max_ttl after it", p.Recovery, p.Headroom)
	line("traffic", "%s in 30 days, %s of it between zones", sizeOf(p.Traffic), sizeOf(p.Billed))
	for _, l := range p.Limits {
		line("limit", "%s", l)
	}
	if p.Calibrated {
		line("latencies", "measured now, on the store")
	}
	line("measured on", "%s", p.Version)
	return b.String()
}

func micros(us float64) string { return time.Duration(us * 1000).Round(time.Microsecond).String() }

// sizeOf is a size for people.
func sizeOf(n float64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	i := 0
	for n >= 1000 && i < len(units)-1 {
		n /= 1000
		i++
	}
	return fmt.Sprintf("%.3g %s", n, units[i])
}
