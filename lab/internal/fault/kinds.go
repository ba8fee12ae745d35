// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Shape is what there is to break.
type Shape struct {
	Clients, Servers int
	TTL              time.Duration
	// Replicated is set if one server grants and another can take over; Votes if a
	// majority of the servers decides.
	Replicated, Votes bool
}

// Kind is a row of the matrix.
type Kind struct {
	Name string
	// LosesData is set if a deployment may lose what it acknowledged, unless the
	// deployment is marked SurvivesDataLoss.
	LosesData bool
	// Splits is set if a server that was replaced may serve on, or again.
	Splits bool
	// Ages is set if the fault makes leases end before their time, by the clock of
	// the server or by an operator: exclusion in time is not promised then.
	Ages bool
	// Lingers is set for rows that only the third matrix has: locks that linger.
	Lingers bool
	// Lossy is set for rows of the second matrix: packets, drifting clocks, slow scripts,
	// two servers at once.
	Lossy bool
	// Needs says why the fault does not apply to a shape; nil and "" mean that it
	// does.
	Needs func(Shape) string
	make  func(g *generation) Plan
}

// Plan makes the plan of a seed.
func (k Kind) Plan(seed uint64, s Shape) Plan {
	g := &generation{rng: rand.New(rand.NewPCG(seed, 2)), s: s}
	return Join(k.make(g))
}

// gen is chance and what there is to break.
type generation struct {
	rng *rand.Rand
	s   Shape
}

// ttl returns between lo and hi hundredths of the TTL.
func (g *generation) ttl(lo, hi int64) time.Duration {
	return g.s.TTL * time.Duration(lo+g.rng.Int64N(hi-lo+1)) / 100
}

// at returns when a step begins: soon after the one before is over.
func (g *generation) at(after time.Duration) time.Duration { return after + g.ttl(20, 60) }

func (g *generation) client() string { return fmt.Sprintf("client:%d", g.rng.IntN(g.s.Clients)) }

// server is any server; where one of them grants it is that one mostly.
func (g *generation) server() string {
	if g.s.Replicated && g.rng.IntN(4) > 0 {
		return "master"
	}
	return fmt.Sprintf("server:%d", g.rng.IntN(g.s.Servers))
}

// granting is the server that grants, or one of those that vote.
func (g *generation) granting() string {
	if g.s.Replicated {
		return "master"
	}
	return g.server()
}

// holder is the holder mostly, and any client otherwise.
func (g *generation) holder() string {
	if g.rng.IntN(4) == 0 {
		return g.client()
	}
	return "holder"
}

// series makes n steps, each after the one before is over.
func (g *generation) series(n int, step func() Step) Plan {
	var p Plan
	for range n {
		s := step()
		s.At = g.at(p.Length())
		p = append(p, s)
	}
	return p
}

// Kinds are the rows, in the order of the fault matrix.
var Kinds = slices.Concat(plain, packets, operators)

var operators = []Kind{
	{Name: "break", Ages: true, Lingers: true, make: func(g *generation) Plan {
		return g.series(4, func() Step { return Step{Verb: Break, Target: g.client()} })
	}},
}

var plain = []Kind{
	{Name: "calm", make: func(g *generation) Plan { return nil }},
	{Name: "client-pause-short", make: func(g *generation) Plan {
		return g.series(3, func() Step { return Step{Verb: Stop, Target: g.holder(), For: g.ttl(10, 50)} })
	}},
	{Name: "client-pause-long", make: func(g *generation) Plan {
		long := g.series(1, func() Step { return Step{Verb: Stop, Target: "holder", For: g.ttl(130, 250)} })
		longer := Step{At: g.at(long.Length()), Verb: Stop, Target: "holder", For: g.ttl(250, 500)}
		return append(long, longer)
	}},
	{Name: "client-kill", make: func(g *generation) Plan {
		return g.series(3, func() Step { return Step{Verb: Kill, Target: g.holder()} })
	}},
	{Name: "waiter-kill", make: func(g *generation) Plan {
		return g.series(3, func() Step { return Step{Verb: Kill, Target: "waiter"} })
	}},
	{Name: "client-cut", make: func(g *generation) Plan {
		return g.series(2, func() Step { return Step{Verb: Cut, Target: g.holder(), For: g.ttl(50, 250)} })
	}},
	{Name: "replies-lost", make: func(g *generation) Plan {
		return g.series(2, func() Step { return Step{Verb: CutReplies, Target: g.holder(), For: g.ttl(20, 150)} })
	}},
	{Name: "requests-lost", make: func(g *generation) Plan {
		return g.series(2, func() Step { return Step{Verb: CutRequests, Target: g.holder(), For: g.ttl(20, 150)} })
	}},
	{Name: "delay", make: func(g *generation) Plan {
		return g.series(3, func() Step { return Step{Verb: Delay, Target: g.client(), By: g.ttl(2, 15), For: g.ttl(50, 150)} })
	}},
	{Name: "duplicates", make: func(g *generation) Plan {
		return g.series(3, func() Step { return Step{Verb: Duplicate, Target: g.client(), By: g.ttl(5, 60), For: g.ttl(60, 150)} })
	}},
	{Name: "server-pause-short", make: func(g *generation) Plan {
		return g.series(2, func() Step { return Step{Verb: Stop, Target: g.server(), For: g.ttl(10, 60)} })
	}},
	{Name: "server-pause-long", Splits: true, make: func(g *generation) Plan {
		return g.series(1, func() Step { return Step{Verb: Stop, Target: g.server(), For: g.ttl(150, 250)} })
	}},
	{Name: "majority-down", Splits: true, Needs: needsVotes, make: func(g *generation) Plan {
		return g.majority(Step{At: g.at(0), Verb: Stop, For: g.ttl(150, 300)})
	}},
	{Name: "server-kill", LosesData: true, Splits: true, make: func(g *generation) Plan {
		return g.series(2, func() Step { return Step{Verb: Kill, Target: g.server(), For: g.ttl(5, 100)} })
	}},
	{Name: "two-servers", Lossy: true, LosesData: true, Splits: true, Needs: needsThree, make: func(g *generation) Plan {
		first := g.rng.IntN(g.s.Servers)
		kill := Step{At: g.at(0), Verb: Kill, Target: fmt.Sprintf("server:%d", first), For: g.ttl(50, 150)}
		stop := Step{At: kill.At, Verb: Stop, Target: fmt.Sprintf("server:%d", (first+1+g.rng.IntN(g.s.Servers-1))%g.s.Servers), For: g.ttl(80, 150)}
		return Plan{kill, stop}
	}},
	{Name: "server-wipe", LosesData: true, Splits: true, make: func(g *generation) Plan {
		return g.series(2, func() Step { return Step{Verb: Wipe, Target: g.server(), For: g.ttl(5, 50)} })
	}},
	{Name: "server-rollback", LosesData: true, Splits: true, make: func(g *generation) Plan {
		return g.series(2, func() Step { return Step{Verb: Rollback, Target: g.granting(), For: g.ttl(30, 150)} })
	}},
	{Name: "flushall", LosesData: true, make: func(g *generation) Plan {
		return g.series(2, func() Step { return Step{Verb: Flush, Target: g.granting()} })
	}},
	{Name: "script-flush", make: func(g *generation) Plan {
		return g.series(4, func() Step { return Step{Verb: FlushScripts, Target: g.server()} })
	}},
	{Name: "slow-scripts", Lossy: true, make: func(g *generation) Plan {
		return g.series(2, func() Step { return Step{Verb: Busy, Target: g.granting(), By: g.ttl(5, 15), For: g.ttl(100, 180)} })
	}},
	{Name: "push-cut", make: func(g *generation) Plan {
		return g.series(5, func() Step { return Step{Verb: CutPush, Target: g.server()} })
	}},
	{Name: "connections-cut", make: func(g *generation) Plan {
		return g.series(4, func() Step { return Step{Verb: CutAll, Target: g.server()} })
	}},
	{Name: "leader-kill", LosesData: true, Splits: true, Needs: needsReplica, make: func(g *generation) Plan {
		return Plan{{At: g.at(0), Verb: Kill, Target: "master", For: g.ttl(400, 500)}}
	}},
	{Name: "failover", LosesData: true, Splits: true, Needs: needsReplica, make: func(g *generation) Plan {
		return Plan{{At: g.at(0), Verb: Failover, Target: "master"}}
	}},
	{Name: "failover-twice", LosesData: true, Splits: true, Needs: needsReplica, make: func(g *generation) Plan {
		first := Step{At: g.at(0), Verb: Failover, Target: "master"}
		return Plan{first, {At: first.At + g.ttl(200, 350), Verb: Failover, Target: "master"}}
	}},
	// The master stands still, and comes back when the one that took over dies.
	{Name: "failback", LosesData: true, Splits: true, Needs: needsReplica, make: func(g *generation) Plan {
		stop := Step{At: g.at(0), Verb: Stop, Target: "master", For: g.ttl(300, 400)}
		return Plan{stop, {At: stop.At + stop.For - g.ttl(5, 20), Verb: Kill, Target: "master", For: g.ttl(300, 400)}}
	}},
	{Name: "slot-migration", Needs: needsReplica, make: func(g *generation) Plan {
		return g.series(2, func() Step { return Step{Verb: Migrate, Target: "master"} })
	}},
	{Name: "leader-cut-off", LosesData: true, Splits: true, Needs: needsReplica, make: func(g *generation) Plan {
		return Plan{{At: g.at(0), Verb: Isolate, Target: "master", For: g.ttl(400, 500)}}
	}},
	{Name: "leader-cut-one-way", LosesData: true, Splits: true, Needs: needsReplica, make: func(g *generation) Plan {
		verb := Mute
		if g.rng.IntN(2) == 0 {
			verb = Deafen
		}
		return Plan{{At: g.at(0), Verb: verb, Target: "master", For: g.ttl(250, 350)}}
	}},
	{Name: "pooler-restart", make: func(g *generation) Plan {
		return g.series(2, func() Step { return Step{Verb: Kill, Target: "pooler", For: g.ttl(5, 80)} })
	}},
	{Name: "memory-full", make: func(g *generation) Plan {
		return g.series(2, func() Step { return Step{Verb: Fill, Target: g.granting(), For: g.ttl(30, 180)} })
	}},
	{Name: "disk-full", make: func(g *generation) Plan {
		return g.series(2, func() Step { return Step{Verb: FillDisk, Target: g.granting(), For: g.ttl(60, 180)} })
	}},
	{Name: "clock-ahead", Ages: true, make: func(g *generation) Plan {
		return g.series(2, func() Step { return Step{Verb: Clock, Target: g.granting(), By: g.ttl(300, 3000)} })
	}},
	// It stays back: to set it right again would be a step ahead.
	{Name: "clock-back", make: func(g *generation) Plan {
		return g.series(2, func() Step { return Step{Verb: ClockBack, Target: g.granting(), By: g.ttl(100, 200)} })
	}},
	// The holder is cut off for longer than the TTL, so that the server's clock decides.
	{Name: "clock-fast", Lossy: true, Ages: true, make: func(g *generation) Plan { return g.rate(105) }},
	{Name: "clock-slow", Lossy: true, make: func(g *generation) Plan { return g.rate(95) }},
	{Name: "pool-exhausted", make: func(g *generation) Plan {
		return g.series(2, func() Step { return Step{Verb: Crowd, Target: g.client(), For: g.ttl(80, 150)} })
	}},
	{Name: "mix", LosesData: true, make: func(g *generation) Plan {
		return Join(
			g.series(2, func() Step { return Step{Verb: Stop, Target: g.holder(), For: g.ttl(20, 200)} }),
			g.series(2, func() Step { return Step{Verb: Kill, Target: g.client()} }),
			g.series(2, func() Step { return Step{Verb: Cut, Target: g.client(), For: g.ttl(20, 120)} }),
			g.series(1, func() Step { return Step{Verb: Flush, Target: g.granting()} }),
		)
	}},
}

// majority does a step to as many servers as it takes that the others cannot decide.
func (g *generation) majority(s Step) Plan {
	var p Plan
	for _, i := range g.rng.Perm(g.s.Servers)[:g.s.Servers/2+1] {
		s.Target = fmt.Sprintf("server:%d", i)
		p = append(p, s)
	}
	return p
}

// rate makes the clock of the server that grants run at a share of its speed, and cuts the
// holder off in that time.
func (g *generation) rate(percent int) Plan {
	cut := Step{At: g.at(g.s.TTL), Verb: Cut, Target: "holder", For: g.ttl(120, 160)}
	return Plan{{At: g.at(0), Verb: ClockRate, Target: g.granting(), Share: percent, For: cut.At + cut.For}, cut}
}

func needsThree(s Shape) string {
	if s.Servers < 3 {
		return "it has fewer than three servers"
	}
	return ""
}

func needsVotes(s Shape) string {
	if !s.Votes {
		return "no majority decides"
	}
	return ""
}

func needsReplica(s Shape) string {
	if !s.Replicated {
		return "this deployment has no replica to promote"
	}
	return ""
}

// Named returns the kind of that name.
func Named(name string) (Kind, bool) {
	for _, k := range Kinds {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// packets are the rows about the IP packets between clients and servers. TCP hides what
// happens to packets and makes it a delay, of seconds if many are lost; so each row is as
// long as the TTL at least.
var packets = []Kind{
	{Name: "loss-1", Lossy: true, make: func(g *generation) Plan {
		return g.all(Step{Verb: Lose, Share: 1, For: g.ttl(400, 500)})
	}},
	{Name: "loss-20", Lossy: true, make: func(g *generation) Plan {
		return g.all(Step{Verb: Lose, Share: 20, For: g.ttl(200, 250)})
	}},
	{Name: "reorder", Lossy: true, make: func(g *generation) Plan {
		return g.all(Step{Verb: Reorder, Share: 30, By: g.ttl(1, 5), For: g.ttl(250, 350)})
	}},
	{Name: "duplicate-packets", Lossy: true, make: func(g *generation) Plan {
		return g.all(Step{Verb: Double, Share: 30, By: g.ttl(1, 10), For: g.ttl(250, 350)})
	}},
	{Name: "corrupt-packets", Lossy: true, make: func(g *generation) Plan {
		return g.all(Step{Verb: Corrupt, Share: 10, For: g.ttl(200, 300)})
	}},
	{Name: "asymmetric-cut", Lossy: true, make: func(g *generation) Plan {
		verbs := []Verb{DropUp, DropDown}
		return g.series(2, func() Step {
			v := verbs[0]
			verbs[0], verbs[1] = verbs[1], v
			return Step{Verb: v, Target: g.holder(), For: g.ttl(50, 200)}
		})
	}},
	{Name: "flapping-link", Lossy: true, make: func(g *generation) Plan {
		return g.series(2, func() Step { return Step{Verb: Flap, Target: g.holder(), By: g.ttl(10, 40), For: g.ttl(120, 200)} })
	}},
	{Name: "slow-link", Lossy: true, make: func(g *generation) Plan {
		return g.series(2, func() Step { return Step{Verb: Slow, Target: g.client(), By: g.ttl(2, 8), For: g.ttl(120, 200)} })
	}},
}

// all does a step to the packets of all clients.
func (g *generation) all(s Step) Plan {
	s.At, s.Target = g.at(0), "clients"
	return Plan{s}
}
