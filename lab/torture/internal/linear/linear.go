// SPDX-License-Identifier: Apache-2.0

// Package linear asks Porcupine whether some order of the calls explains a
// history: the second opinion beside package check, which knows what to search.
//
//	state          who holds the lock, with which token; the greatest token so far
//	acquire(tok)   no client holds it, and tok is greater than all before
//	release        the caller holds it; without an answer: maybe. Of a lock that may
//	               linger: if the caller holds it still
//	expire(tok)    the holder with that token holds it no more, or nothing happens
//
// Expiry is a call that no client made: for every grant that was not given back for
// certain there is one, without an end. It is checked twice. Timed, it begins when
// the holder trusted its lease no more: that is exclusion in time, T. Untimed, it
// may happen from the grant on: then only tokens and owners are checked, which must
// be right in every cell, F.
//
// An acquisition without an answer may have had no effect, and then explains
// whatever it would explain otherwise, so it is left out.
package linear

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/fencelock/fencelock/lab/torture/internal/check"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
)

// patience bounds a search. Histories that can be explained take milliseconds;
// a refutation can take practically forever.
const patience = 5 * time.Second

// Finding is a history that no order explains.
type Finding struct {
	check.Violation
	// Leases are timed or untimed.
	Leases string
	// Picture is a page that shows how far an explanation goes.
	Picture []byte
}

// The two ways in which leases end.
const (
	untimed = "untimed"
	timed   = "timed"
)

type verb string

const (
	acquire verb = "acquire"
	release verb = "release"
	expire  verb = "expire"
)

// call is what was asked, sure whether the answer is known.
type call struct {
	verb  verb
	lock  string
	who   string
	token int64
	sure  bool
	// idle is set for a release that did not ask the store: the lease may have ended before.
	idle bool
}

// state of one lock.
type state struct {
	held  bool
	who   string
	token int64
	most  int64
}

var model = (&porcupine.NondeterministicModel{
	Partition: byLock,
	Init:      func() []any { return []any{state{}} },
	Step: func(s, in, _ any) []any {
		return step(s.(state), in.(call))
	},
	DescribeOperation: func(in, _ any) string {
		c := in.(call)
		text := fmt.Sprintf("%s %s", c.who, c.verb)
		if c.token != 0 {
			text += fmt.Sprintf(" %d", c.token)
		}
		if !c.sure && c.verb == release {
			text += ", no answer"
		}
		return text
	},
	DescribeState: func(s any) string {
		if x := s.(state); x.held {
			return fmt.Sprintf("%s holds %d", x.who, x.token)
		}
		return "free"
	},
}).ToModel()

// step returns the states in which a call can leave a lock; none if it could not
// have been answered so.
func step(s state, c call) []any {
	mine := s.held && s.who == c.who && s.token == c.token
	free := state{most: s.most}
	switch c.verb {
	case acquire:
		if s.held || c.token != 0 && c.token <= s.most {
			return nil
		}
		return []any{state{held: true, who: c.who, token: c.token, most: max(s.most, c.token)}}
	case release:
		if c.sure && !c.idle && !mine {
			return nil
		}
	}
	switch {
	case !mine:
		return []any{s}
	case c.sure:
		return []any{free}
	}
	return []any{s, free}
}

func byLock(ops []porcupine.Operation) [][]porcupine.Operation {
	index := map[string]int{}
	var parts [][]porcupine.Operation
	for _, op := range ops {
		l := op.Input.(call).lock
		i, ok := index[l]
		if !ok {
			i = len(parts)
			index[l] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], op)
	}
	return parts
}

// Check returns what no order explains, timed and untimed, and which of the two
// were not decided in the time that a search has.
func Check(events []history.Event) (found []Finding, undecided []string) {
	return search(events, patience)
}

func search(events []history.Event, patience time.Duration) (found []Finding, undecided []string) {
	for _, q := range []struct {
		leases   string
		property check.Property
		text     string
	}{
		{untimed, check.F, "no order of the calls explains the tokens and owners, whenever leases ended"},
		{timed, check.T, "no order of the calls explains the grants, if leases last as long as their holders trusted them"},
	} {
		ops := operations(events, q.leases == timed)
		result, info := porcupine.CheckOperationsVerbose(model, ops, patience)
		switch result {
		case porcupine.Ok:
			continue
		case porcupine.Unknown:
			undecided = append(undecided, q.leases)
			continue
		}
		var b bytes.Buffer
		if err := porcupine.Visualize(model, info, &b); err != nil {
			b.Reset()
			fmt.Fprintf(&b, "no picture: %v", err)
		}
		found = append(found, Finding{check.Violation{Check: "P", Property: q.property, At: events[len(events)-1].At, Text: q.text}, q.leases, b.Bytes()})
	}
	return found, undecided
}

// forever is the end of a call without one.
const forever = math.MaxInt64

// grant is an acquisition that was granted and is not over.
type grant struct {
	call
	ask, until, notified int64
}

// operations turns a history into calls.
func operations(events []history.Event, timed bool) []porcupine.Operation {
	b := &builder{timed: timed, asked: map[string]int64{}, held: map[string]*grant{}, clients: map[string]int{}}
	for _, e := range events {
		b.add(e)
	}
	for _, g := range b.held { // what was not given back may end
		b.expire(g)
	}
	for who, at := range b.leaving {
		b.op(at.call, at.ask, forever)
		delete(b.leaving, who)
	}
	return b.ops
}

type builder struct {
	timed   bool
	asked   map[string]int64
	held    map[string]*grant
	leaving map[string]*grant // asked to be released; ask is when
	clients map[string]int
	ops     []porcupine.Operation
}

func (b *builder) op(c call, from, to int64) {
	row := c.who
	if to == forever {
		row += ", no end" // a separate row in the picture
	}
	id, ok := b.clients[row]
	if !ok {
		id = len(b.clients)
		b.clients[row] = id
	}
	b.ops = append(b.ops, porcupine.Operation{ClientId: id, Input: c, Call: from, Return: to})
}

func (b *builder) add(e history.Event) {
	g := b.held[e.Who]
	if g != nil {
		g.until = max(g.until, e.Until)
	}
	switch e.Kind {
	case history.Ask:
		b.asked[e.Who] = e.At
	case history.Grant:
		g = &grant{call: call{verb: acquire, lock: e.Lock, who: e.Who, token: e.Token, sure: true}, ask: b.asked[e.Who], until: e.Until}
		b.held[e.Who] = g
		b.op(g.call, g.ask, e.At)
	case history.Lost:
		if g != nil {
			g.notified = e.At
		}
	case history.Release:
		if g != nil {
			if b.leaving == nil {
				b.leaving = map[string]*grant{}
			}
			b.leaving[e.Who] = &grant{call: call{verb: release, lock: e.Lock, who: e.Who, token: g.token}, ask: e.At}
		}
	case history.Released:
		b.released(e)
	case history.Killed:
		if g != nil {
			g.notified = e.At
		}
	}
}

// released: an answer that it worked is certain; any other says nothing, because
// the lease may have ended before or after.
func (b *builder) released(e history.Event) {
	l := b.leaving[e.Who]
	if l == nil {
		return
	}
	delete(b.leaving, e.Who)
	if e.Text == "" {
		l.sure, l.idle = true, e.Idle
		b.op(l.call, l.ask, e.At)
		if e.Idle {
			b.expire(b.held[e.Who])
		}
	} else {
		b.op(l.call, l.ask, forever)
		b.expire(b.held[e.Who])
	}
	delete(b.held, e.Who)
}

// expire adds the end of a lease that was not released.
func (b *builder) expire(g *grant) {
	from := g.ask
	if b.timed {
		end := g.until
		if g.notified != 0 {
			end = min(end, g.notified)
		}
		from = max(from, end)
	}
	b.op(call{verb: expire, lock: g.lock, who: g.who, token: g.token}, from, forever)
}
