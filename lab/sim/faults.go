// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// fault returns a random fault expression of one to three parts.
func (s *Schedule) fault(r *rand.Rand) string {
	if r.IntN(6) == 0 {
		return s.betrayal(r)
	}
	parts := make([]string, 1+r.IntN(3))
	for i := range parts {
		parts[i] = s.part(r)
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return "any(" + strings.Join(parts, ", ") + ")"
}

// betrayal returns slow replies that the client gets used to, and then silence:
// a client that counts its time from the reply is notified too late.
func (s *Schedule) betrayal(r *rand.Rand) string {
	from := share(r, s.End, 0.1, 0.6).Round(time.Millisecond)
	return fmt.Sprintf("any(on(%s, delay(1ms, %s)), during(%s, %s, lose(request)))", pick(r, "keepalive", "keepalive", "open"),
		share(r, s.T, 0.08, 0.16).Round(time.Millisecond), from, from+2*s.T)
}

// haze returns late replies to those who ask for a lock, and attempts and reclaims
// that are late on their way there or back.
func (s *Schedule) haze(r *rand.Rand) string {
	late := func(op string, request time.Duration) string {
		return fmt.Sprintf("on(%s, prob(0.3, %d, delay(%s, %s)))", op, r.IntN(1000), request, share(r, s.T, 0.05, 0.6))
	}
	return fmt.Sprintf("any(%s, %s, %s)", late("attempt", pick(r, time.Millisecond, share(r, s.T, 0, 0.5))), late("await", time.Millisecond),
		late("reclaim", share(r, s.T, 0, 0.6)))
}

// part returns one fault: now and then, for a while, or once.
func (s *Schedule) part(r *rand.Rand) string {
	from := share(r, s.End, 0, 0.8).Round(time.Millisecond)
	until := from + share(r, s.T, 0.2, 3).Round(time.Millisecond)
	switch op := s.op(r); r.IntN(8) {
	case 0, 1, 2: // a bad network
		return onOp(op, fmt.Sprintf("prob(%.2f, %d, %s)", 0.05+0.35*r.Float64(), r.IntN(1000), s.effect(r, op)))
	case 3, 4: // a bad time
		return fmt.Sprintf("during(%s, %s, %s)", from, until, onOp(op, s.effect(r, op)))
	case 5: // a very bad time
		return fmt.Sprintf("during(%s, %s, %s)", from, until, pick(r, "lose(request)", "lose(reply)", "refuse"))
	case 6: // one accident
		return onOp(op, fmt.Sprintf("nth(%d, %s)", 1+r.IntN(12), s.effect(r, op)))
	default: // one accident of the kind that would be too much if it were often
		return fmt.Sprintf("nth(%d, %s)", 1+r.IntN(60), s.blow(r))
	}
}

func onOp(op, f string) string {
	if op == "" {
		return f
	}
	return "on(" + op + ", " + f + ")"
}

// op returns an operation, or nothing for all of them.
func (s *Schedule) op(r *rand.Rand) string {
	return pick(r, "", "", "open", "keepalive", "keepalive", "attempt", "attempt", "attempt", "await", "withdraw", "withdraw", "reclaim", "close")
}

// effect returns something that may happen often.
func (s *Schedule) effect(r *rand.Rand, op string) string {
	for {
		switch e := r.IntN(6); {
		case e == 0:
			return "lose(request)"
		case e == 1:
			return "lose(reply)"
		case e == 2:
			return "refuse"
		case e == 3 && op != "await":
			return "dup"
		case e >= 4:
			return fmt.Sprintf("delay(%s, %s)", s.lag(r), s.lag(r))
		}
	}
}

// lag returns a delay: mostly short, at times longer than a TTL.
func (s *Schedule) lag(r *rand.Rand) time.Duration {
	switch r.IntN(5) {
	case 0:
		return share(r, s.T, 0.2, 1.3).Round(time.Millisecond)
	case 1:
		return share(r, s.T, 0.05, 0.4).Round(time.Millisecond)
	}
	return max(time.Millisecond, share(r, s.T, 0, 0.05).Round(time.Millisecond))
}

// blow returns something that must not happen often.
func (s *Schedule) blow(r *rand.Rand) string {
	switch r.IntN(9) {
	case 0, 1, 2:
		return fmt.Sprintf("cut(%s)", share(r, s.T, 0.1, 1.8).Round(time.Millisecond))
	case 3, 4, 5:
		return fmt.Sprintf("pause(%s)", share(r, s.T, 0.1, 1.8).Round(time.Millisecond))
	case 6:
		return "reset(all)"
	case 7:
		return "reset(some)"
	}
	return fmt.Sprintf("step(+%s)", share(r, s.T, 0.2, 1).Round(time.Millisecond))
}
