// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Shape is what there is to break.
type Shape struct {
	Clients, Servers int
	TTL              time.Duration
	// Replicated is set if the servers are one master with replicas and something
	// that promotes them; Voting if they are independent.
	Replicated, Voting bool
}

// Kind is a row of the matrix.
type Kind struct {
	Name string
	// Forgets is set if an engine of one server may lose what it acknowledged.
	Forgets bool
	// Splits is set if a server that was replaced may serve on.
	Splits bool
	// Needs says why the fault does not apply to a shape; nil and "" mean that it
	// does.
	Needs func(Shape) string
	make  func(g *gen) Plan
}

// Plan makes the plan of a seed.
func (k Kind) Plan(seed uint64, s Shape) Plan {
	g := &gen{rng: rand.New(rand.NewPCG(seed, 2)), s: s}
	return Join(k.make(g))
}

// gen is chance and what there is to break.
type gen struct {
	rng *rand.Rand
	s   Shape
}

// ttl returns between lo and hi hundredths of the TTL.
func (g *gen) ttl(lo, hi int64) time.Duration {
	return g.s.TTL * time.Duration(lo+g.rng.Int64N(hi-lo+1)) / 100
}

// at returns when a step begins: soon after the one before is over.
func (g *gen) at(after time.Duration) time.Duration { return after + g.ttl(20, 60) }

func (g *gen) client() string { return fmt.Sprintf("client:%d", g.rng.IntN(g.s.Clients)) }
func (g *gen) server() string { return fmt.Sprintf("server:%d", g.rng.IntN(g.s.Servers)) }

// holder is the holder mostly, and any client otherwise.
func (g *gen) holder() string {
	if g.rng.IntN(4) == 0 {
		return g.client()
	}
	return "holder"
}

// series makes n steps, each after the one before is over.
func (g *gen) series(n int, step func() Step) Plan {
	var p Plan
	for range n {
		s := step()
		s.At = g.at(p.Length())
		p = append(p, s)
	}
	return p
}

// Kinds are the rows, in the order of the fault matrix.
var Kinds = []Kind{
	{Name: "calm", make: func(g *gen) Plan { return nil }},
	{Name: "client-pause-short", make: func(g *gen) Plan {
		return g.series(3, func() Step { return Step{Verb: Stop, Target: g.holder(), For: g.ttl(10, 50)} })
	}},
	{Name: "client-pause-long", make: func(g *gen) Plan {
		return g.series(2, func() Step { return Step{Verb: Stop, Target: "holder", For: g.ttl(130, 250)} })
	}},
	{Name: "client-kill", make: func(g *gen) Plan {
		return g.series(3, func() Step { return Step{Verb: Kill, Target: g.holder()} })
	}},
	{Name: "waiter-kill", make: func(g *gen) Plan {
		return g.series(3, func() Step { return Step{Verb: Kill, Target: "waiter"} })
	}},
	{Name: "client-cut", make: func(g *gen) Plan {
		return g.series(2, func() Step { return Step{Verb: Cut, Target: g.holder(), For: g.ttl(50, 250)} })
	}},
	{Name: "replies-lost", make: func(g *gen) Plan {
		return g.series(2, func() Step { return Step{Verb: CutReplies, Target: g.holder(), For: g.ttl(20, 150)} })
	}},
	{Name: "requests-lost", make: func(g *gen) Plan {
		return g.series(2, func() Step { return Step{Verb: CutRequests, Target: g.holder(), For: g.ttl(20, 150)} })
	}},
	{Name: "delay", make: func(g *gen) Plan {
		return g.series(3, func() Step { return Step{Verb: Delay, Target: g.client(), By: g.ttl(2, 15), For: g.ttl(50, 150)} })
	}},
	{Name: "server-pause-short", Splits: true, make: func(g *gen) Plan {
		return g.series(2, func() Step { return Step{Verb: Stop, Target: g.server(), For: g.ttl(10, 60)} })
	}},
	{Name: "server-pause-long", Splits: true, make: func(g *gen) Plan {
		return g.series(1, func() Step { return Step{Verb: Stop, Target: g.server(), For: g.ttl(150, 250)} })
	}},
	{Name: "server-kill", Forgets: true, make: func(g *gen) Plan {
		return g.series(2, func() Step { return Step{Verb: Kill, Target: g.server(), For: g.ttl(5, 100)} })
	}},
	{Name: "server-wipe", Forgets: true, make: func(g *gen) Plan {
		return g.series(2, func() Step { return Step{Verb: Wipe, Target: g.server(), For: g.ttl(5, 50)} })
	}},
	{Name: "flushall", Forgets: true, make: func(g *gen) Plan {
		return g.series(2, func() Step { return Step{Verb: Flush, Target: g.server()} })
	}},
	{Name: "script-flush", make: func(g *gen) Plan {
		return g.series(4, func() Step { return Step{Verb: FlushScripts, Target: g.server()} })
	}},
	{Name: "push-cut", make: func(g *gen) Plan {
		return g.series(5, func() Step { return Step{Verb: CutPush, Target: g.server()} })
	}},
	{Name: "connections-cut", make: func(g *gen) Plan {
		return g.series(4, func() Step { return Step{Verb: CutAll, Target: g.server()} })
	}},
	{Name: "failover", Forgets: true, Needs: func(s Shape) string {
		if !s.Replicated {
			return "the engine has nothing to promote"
		}
		return ""
	}, make: func(g *gen) Plan {
		return Plan{{At: g.at(0), Verb: Kill, Target: "master", For: g.ttl(400, 500)}}
	}},
	{Name: "mix", Forgets: true, make: func(g *gen) Plan {
		return Join(
			g.series(2, func() Step { return Step{Verb: Stop, Target: g.holder(), For: g.ttl(20, 200)} }),
			g.series(2, func() Step { return Step{Verb: Kill, Target: g.client()} }),
			g.series(2, func() Step { return Step{Verb: Cut, Target: g.client(), For: g.ttl(20, 120)} }),
			g.series(1, func() Step { return Step{Verb: Flush, Target: g.server()} }),
		)
	}},
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
