// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/internal/deployment"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/torture/internal/cell"
	"github.com/fencelock/fencelock/lab/torture/internal/check"
	"github.com/fencelock/fencelock/lab/torture/internal/peer"
)

// contest is locks on one deployment, under the same faults.
type contest struct {
	deployment string
	locks      []string
	faults     []string
}

// contests: one server, and five of which a majority decides.
var contests = []contest{
	{"redis", []string{"redis", "redis-grace", peer.Prefix + "redsync", peer.Prefix + "rueidislock"},
		[]string{"client-pause-long", "client-kill", "client-cut", "replies-lost", "requests-lost", "delay", "server-pause-long", "server-kill", "flushall", "connections-cut", "push-cut", "mix"}},
	{"quorum-5", []string{"quorum", peer.Prefix + "redsync"},
		[]string{"client-pause-long", "client-kill", "client-cut", "replies-lost", "server-pause-long", "server-wipe", "mix"}},
}

// score is what one lock did in all cells of a contest.
type score struct {
	lock, deployment                     string
	cells, grants                        int
	time                                 time.Duration
	overlaps, late, stuck, plain, fenced int
}

// compare runs the same plans on our lock and on those of others, and counts.
func compare(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("torture peers", flag.ContinueOnError)
	rounds := fs.Int("rounds", 2, "how many seeds")
	seed := fs.Uint64("seed", 1, "the first of them")
	out := fs.String("out", "", "folder for the histories of what went wrong; a new temporary one by default")
	write := fs.String("write", "", "file in which the table is kept up to date")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *out == "" {
		dir, err := os.MkdirTemp("", "torture-peers")
		if err != nil {
			return err
		}
		*out = dir
	}
	var scores []*score
	var wrong []cell.Result
	spoilt := 0
	for _, c := range contests {
		for _, l := range c.locks {
			scores = append(scores, &score{lock: l, deployment: c.deployment})
		}
	}
	for round := range *rounds { // all of a round before the next: one can stop at any time
		mine := scores
		for _, c := range contests {
			w, n := c.round(ctx, mine[:len(c.locks)], *seed+uint64(round))
			wrong, spoilt, mine = append(wrong, w...), spoilt+n, mine[len(c.locks):]
		}
	}
	if err := save(*out, wrong); err != nil {
		return err
	}
	if ctx.Err() == nil { // a part does not replace the whole
		if err := rewrite(*write, "peers", table(scores)); err != nil {
			return err
		}
	}
	fmt.Print(table(scores))
	fmt.Printf("%d plans were left out because the machine stalled in one of their cells.\nwhat went wrong: %s\n", spoilt, filepath.Join(*out, "index.html"))
	return errors.Join(ctx.Err(), verdict(scores))
}

// round runs all plans of a seed, adds what came of it, and returns what went
// wrong and how many plans were left out.
func (c contest) round(ctx context.Context, scores []*score, seed uint64) (wrong []cell.Result, spoilt int) {
	for _, f := range c.faults {
		results, ok := c.run(ctx, f, seed)
		if ctx.Err() != nil {
			return wrong, spoilt // what was found before counts
		}
		if !ok {
			spoilt++
			continue
		}
		for i, r := range results {
			scores[i].add(r)
			if r.Counts[check.T]+r.Counts[check.F]+r.Counts[check.L]+r.Counts[check.W] > 0 {
				wrong = append(wrong, r)
			}
		}
	}
	return wrong, spoilt
}

// verdict: of ours nothing fenced may be lost, whatever the others do.
func verdict(scores []*score) error {
	lost := 0
	for _, s := range scores {
		if !strings.HasPrefix(s.lock, peer.Prefix) {
			lost += s.fenced
		}
		fmt.Printf("beside: %s on %s had %.0f overlaps an hour\n", strings.TrimPrefix(s.lock, peer.Prefix), s.deployment, perHour(s.overlaps, s.time))
	}
	figure.Print("torture-peers-fenced-lost", lost, figure.Exactly(0))
	if lost > 0 {
		return fmt.Errorf("%d fenced effects of ours went wrong", lost)
	}
	return nil
}

// run runs one plan on all locks, and once more on one that a busy machine
// spoilt. If it is spoilt again the plan counts for none.
func (c contest) run(ctx context.Context, name string, seed uint64) ([]cell.Result, bool) {
	var results []cell.Result
	for _, l := range c.locks {
		e, _ := deployment.Named(c.deployment)
		e.Fair = false
		k, _ := fault.Named(name)
		x := cell.Cell{Deployment: e, Fault: k, Seed: seed, Lock: l, Long: 4}
		r := cell.Run(ctx, x)
		if r.Status == cell.NotRun {
			r = cell.Run(ctx, x)
		}
		fmt.Printf("%-24s %-18s seed %d %5.1fs %4d grants %v %s\n", r.Column(), name, seed, r.Took.Seconds(), r.Grants, r.Counts, notRun(r))
		if r.Status == cell.NotRun {
			return nil, false
		}
		results = append(results, r)
	}
	return results, true
}

func notRun(r cell.Result) string {
	if r.Status == cell.NotRun {
		return r.Reason
	}
	return ""
}

func (s *score) add(r cell.Result) {
	s.cells++
	s.grants += r.Grants
	s.time += time.Duration(r.Events[len(r.Events)-1].At - r.Events[0].At)
	for _, v := range r.Violations {
		if v.Check == "D3" { // Porcupine says the same once more
			s.overlaps++
		}
	}
	s.late += r.Counts[check.N]
	s.stuck += r.Counts[check.L] + r.Counts[check.W]
	s.plain += r.Counts[check.U]
	s.fenced += r.Counts[check.F]
}

func perHour(n int, d time.Duration) float64 {
	if d == 0 {
		return 0
	}
	return float64(n) / d.Hours()
}

// table is for README.md: counts, and in brackets per hour of such faults.
func table(scores []*score) string {
	var b strings.Builder
	b.WriteString("\n| Lock | Servers | Cells | Minutes | Grants | Overlaps | Notified late | Stuck | Plain list | Guarded list |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, s := range scores {
		name, guarded := "fencelock", fmt.Sprint(s.fenced)
		if p, ok := strings.CutPrefix(s.lock, peer.Prefix); ok {
			name, guarded = p, "no token"
		} else if s.lock == "redis-grace" {
			name = "fencelock, grace"
		}
		n := func(n int) string { return fmt.Sprintf("%d (%.0f)", n, perHour(n, s.time)) }
		fmt.Fprintf(&b, "| %s | %s | %d | %.1f | %d | %s | %s | %s | %s | %s |\n", name, s.deployment, s.cells, s.time.Minutes(), s.grants,
			n(s.overlaps), n(s.late), n(s.stuck), n(s.plain), guarded)
	}
	b.WriteString("\nSettings of the others:\n\n")
	for _, p := range peer.Peers {
		fmt.Fprintf(&b, "- %s: %s\n", p.Name, p.Settings)
	}
	return b.String()
}
