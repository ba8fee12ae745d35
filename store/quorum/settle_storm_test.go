// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"time"

	"github.com/fencelock/fencelock/store/faultstore"
)

// storm is a time in which something is wrong with one node, for some of the processes, and what happens to the node in it.
type storm struct {
	node     int
	from, to time.Duration
	event    string
	at       time.Duration // of the event
	back     time.Duration // how long a step of its clock or older data lasts
	step     time.Duration
}

func (g *settling) storms(n int) (all []storm) {
	r := g.r
	events := []string{"", "", "reset", "restart", "restore", "end", "end", "step", "twice", "twice"}
	wild := r.IntN(4) == 0 // any number of nodes at a time
	at := 2 * time.Second
	for at < chaos-4*time.Second {
		s := storm{node: r.IntN(n), from: at, to: at + time.Duration(500+r.IntN(5000))*time.Millisecond, event: events[r.IntN(len(events))]}
		s.at = s.from + time.Duration(r.Int64N(int64(s.to-s.from)))
		s.back = time.Duration(100+r.IntN(3000)) * time.Millisecond
		switch s.event {
		case "end":
			if s.step = g.ttl + time.Second; r.IntN(3) == 0 {
				s.step, g.far = 2*settleMax, true
			}
			g.stepped = true
		case "step":
			s.step = time.Duration(r.IntN(8000)-4000) * time.Millisecond
			g.stepped = g.stepped || s.step > 0
		case "twice":
			s.back, s.to = s.back/3, max(s.to, s.at+5*time.Second)
			fallthrough
		case "reset", "restart", "restore":
			g.lost = true
		}
		all = append(all, s)
		if at = s.to + time.Duration(r.IntN(2000))*time.Millisecond; wild || r.IntN(4) == 0 {
			at = s.from + time.Duration(r.IntN(2000))*time.Millisecond
		}
	}
	return all
}

// faults draws the faults of one process's ways to the nodes.
func (g *settling) faults(n int, storms []storm) map[int]faultstore.Fault {
	r := g.r
	parts := make([][]faultstore.Fault, n)
	for i := range parts { // calls that are sent together do not arrive together
		f := faultstore.Prob(0.5, r.Uint64N(1000), faultstore.Delay(time.Duration(1+r.IntN(20))*time.Millisecond, time.Duration(r.IntN(20))*time.Millisecond))
		parts[i] = append(parts[i], faultstore.During(0, chaos, f))
	}
	ops := []faultstore.Op{faultstore.Attempt, faultstore.Attempt, faultstore.Withdraw, faultstore.Withdraw, faultstore.Reclaim,
		faultstore.KeepAlive, faultstore.Open, faultstore.Await}
	for _, s := range storms {
		if s.event == "twice" {
			f := faultstore.On(faultstore.Reclaim, faultstore.Delay(time.Duration(1+r.IntN(2000))*time.Millisecond, time.Millisecond))
			parts[s.node] = append(parts[s.node], faultstore.During(s.from, min(s.to, chaos), f))
		}
		for range r.IntN(4) {
			var f faultstore.Fault
			switch r.IntN(7) {
			case 0:
				f = faultstore.LoseRequest()
			case 1:
				f = faultstore.LoseReply()
			case 2:
				f = faultstore.Refuse()
			case 3:
				f = faultstore.Delay(0, time.Duration(1+r.IntN(2500))*time.Millisecond)
			default:
				f = faultstore.Delay(time.Duration(1+r.IntN(2500))*time.Millisecond, time.Millisecond)
			}
			f = faultstore.Prob([]float64{0.3, 0.7, 1}[r.IntN(3)], r.Uint64N(1000), f)
			if r.IntN(4) > 0 {
				f = faultstore.On(ops[r.IntN(len(ops))], f)
			}
			parts[s.node] = append(parts[s.node], faultstore.During(s.from, min(s.to, chaos), f))
		}
	}
	all := map[int]faultstore.Fault{}
	for i, p := range parts {
		all[i] = faultstore.Any(p...)
	}
	return all
}

// strike does to a node what the storm does to it.
func (g *settling) strike(s storm) {
	node := g.stores[s.node]
	snap := node.Snapshot()
	if s.event == "restore" {
		time.Sleep(max(0, s.at-s.back))
		snap = node.Snapshot()
	}
	time.Sleep(s.at - time.Since(g.began))
	if s.event != "" {
		g.log("node %s: %s %v", nodeName(s.node), s.event, s.step)
	}
	switch s.event {
	case "twice": // the second time while a keep-alive has it put back what was lost at first
		node.Reset()
		time.Sleep(s.back + time.Second)
		node.Reset()
	case "reset":
		node.Reset()
	case "restart":
		node.Restart()
	case "restore":
		node.Restore(snap)
	case "end", "step":
		node.StepClock(s.step)
		time.Sleep(s.back)
		node.StepClock(-s.step)
		g.log("node %s: %s is over", nodeName(s.node), s.event)
	}
}
