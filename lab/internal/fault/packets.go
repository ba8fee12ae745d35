// SPDX-License-Identifier: Apache-2.0

package fault

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
