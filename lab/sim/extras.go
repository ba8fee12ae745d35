// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// extend adds to a share of the schedules what is too costly, or too special, for
// all of them. It has its own generator: what Make decided stays.
func (s *Schedule) extend() {
	r := rand.New(rand.NewPCG(s.Seed, 0xadded))
	if r.IntN(7) == 0 {
		s.outage(r)
	}
	s.Election = r.IntN(6) == 0
	s.Jobs = r.IntN(6) == 0 || s.Weather == Outage && r.IntN(2) == 0
	if r.IntN(12) == 0 {
		s.Hoard = 20 + r.IntN(20)
	}
	if s.Weather < Storm {
		return
	}
	if r.IntN(3) == 0 {
		s.suspends(r)
	}
	if r.IntN(4) == 0 {
		s.definite(r)
	}
	if r.IntN(6) == 0 {
		c := &s.Clients[r.IntN(len(s.Clients))]
		c.bend(fmt.Sprintf("prob(%.2f, %d, dup)", 0.1+0.4*r.Float64(), r.IntN(1000)))
	}
	switch r.IntN(8) {
	case 0:
		s.crowd(r)
	case 1:
		s.meddle(r)
	}
}

// bend adds a fault to those that the client has.
func (c *ClientPlan) bend(fault string) {
	if c.Fault == "none" {
		c.Fault = fault
		return
	}
	c.Fault = "any(" + c.Fault + ", " + fault + ")"
}

// outage makes the weather one in which the store begins a new incarnation and,
// for a whole TTL after it, one kind of operation fails: to open, to reclaim or
// to withdraw.
func (s *Schedule) outage(r *rand.Rand) {
	s.Weather, s.Events = Outage, nil
	s.Store.Grace = r.IntN(4) > 0
	for i := range s.Clients {
		c := &s.Clients[i]
		c.Fault, c.Kill, c.Close = "none", 0, 0
	}
	for range 1 + r.IntN(2) {
		e := StoreEvent{At: share(r, s.End, 0.1, 0.6).Round(time.Millisecond), Kind: pick(r, LostData, Restored, Restarted, Restarted)}
		s.Events = append(s.Events, e)
		for i := range s.Clients {
			if r.IntN(3) == 0 {
				continue
			}
			c := &s.Clients[i]
			c.Cut = pick(r, "open", "reclaim", "reclaim", "withdraw")
			effect := pick(r, "refuse", "refuse", "lose(request)", "lose(reply)", "fail")
			c.bend(fmt.Sprintf("during(%s, %s, on(%s, for(%s, %s)))", e.At, s.End, c.Cut,
				share(r, s.T, 1, 2).Round(time.Millisecond), effect))
		}
	}
}

// suspends plans that machines stand still: for a moment, or for longer than any
// session lives.
func (s *Schedule) suspends(r *rand.Rand) {
	for range 1 + r.IntN(2) {
		c := &s.Clients[r.IntN(len(s.Clients))]
		at := share(r, s.End, 0.05, 0.9)
		for _, o := range c.Suspends {
			at = max(at, o.At+o.For+s.T/10)
		}
		c.Suspends = append(c.Suspends, Span{at, share(r, s.T, 0.05, pick(r, 0.8, 2))})
	}
}

// definite adds errors after which trying again does not help.
func (s *Schedule) definite(r *rand.Rand) {
	c := &s.Clients[r.IntN(len(s.Clients))]
	op := s.op(r)
	switch from := share(r, s.End, 0, 0.8).Round(time.Millisecond); r.IntN(3) {
	case 0:
		c.bend(onOp(op, fmt.Sprintf("prob(%.2f, %d, fail)", 0.02+0.2*r.Float64(), r.IntN(1000))))
	case 1:
		c.bend(onOp(op, fmt.Sprintf("nth(%d, fail)", 1+r.IntN(20))))
	default:
		c.bend(onOp(op, fmt.Sprintf("during(%s, %s, fail)", from, from+share(r, s.T, 0.2, 1.5).Round(time.Millisecond))))
	}
}

// crowd lets many goroutines of one process want one name, and its unlocks be
// slow.
func (s *Schedule) crowd(r *rand.Rand) {
	s.Names = s.Names[:1]
	s.Acts = slices.DeleteFunc(s.Acts, func(a Act) bool { return a.Name != s.Names[0].Name })
	s.Zeal = 4
	c := &s.Clients[r.IntN(len(s.Clients))]
	c.Workers = 6 + r.IntN(5)
	c.LocalHandoff = pick(r, -1, -1, s.T/100, s.T/30)
	slow := share(r, s.T, 0.02, 0.3).Round(time.Millisecond)
	c.bend(fmt.Sprintf("on(withdraw, prob(0.5, %d, %s))", r.IntN(1000),
		pick(r, fmt.Sprintf("delay(%s, %s)", slow, slow), "lose(request)", "lose(reply)")))
}

// meddle lets the operator break many locks and leases be short, while attempts
// are late: what was broken or has ended may then be asked for again.
func (s *Schedule) meddle(r *rand.Rand) {
	for range 6 + r.IntN(8) {
		s.Acts = append(s.Acts, Act{At: share(r, s.End, 0.05, 0.95), Kind: Broke, Name: pick(r, s.Names...).Name})
	}
	s.Short = true
	for i := range s.Clients {
		late := func(lo, hi float64) time.Duration {
			return max(time.Millisecond, share(r, s.T, lo, hi).Round(time.Millisecond))
		}
		s.Clients[i].bend(fmt.Sprintf("on(attempt, any(prob(0.2, %d, delay(%s, 1ms)), prob(0.2, %d, delay(1ms, %s))))",
			r.IntN(1000), late(0.3, 1.2), r.IntN(1000), late(0.02, 0.3)))
	}
}

// extras returns what extend decided, for people.
func (s *Schedule) extras() string {
	var b strings.Builder
	if s.Election || s.Jobs || s.Hoard > 0 || s.Short {
		fmt.Fprintf(&b, "  election %v, many jobs %v, hoard of %d, short leases %v\n", s.Election, s.Jobs, s.Hoard, s.Short)
	}
	for i, c := range s.Clients {
		for _, x := range c.Suspends {
			fmt.Fprintf(&b, "  c%d: suspended at %v for %v\n", i, x.At, x.For)
		}
	}
	return b.String()
}
