// SPDX-License-Identifier: Apache-2.0

package faultstore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// cond chooses calls. It is a value without state; fresh makes the state.
type cond interface {
	// head prints the condition up to the fault: "nth(4".
	head() string
	valid() error
	// narrow returns which of the operations can pass.
	narrow(ops []Op) []Op
	// fresh returns the condition with new counters.
	fresh() func(*call) bool
}

// On returns f for calls of one operation only.
func On(op Op, f Fault) Fault { return when{onOp(op), orNone(f)} }

type onOp Op

func (o onOp) head() string { return "on(" + string(o) }

func (o onOp) valid() error {
	if !slices.Contains(allOps, Op(o)) {
		return fmt.Errorf("unknown operation %q; want one of %s", string(o), wordList(allOps))
	}
	return nil
}

func (o onOp) narrow(ops []Op) []Op { return only(ops, []Op{Op(o)}) }

func (o onOp) fresh() func(*call) bool {
	return func(c *call) bool { return c.op == Op(o) }
}

// Name returns f for calls about one lock only. A Reclaim is about every lock
// in it.
func Name(name string, f Fault) Fault { return when{onName(name), orNone(f)} }

type onName string

func (n onName) head() string         { return "name(" + strconv.Quote(string(n)) }
func (n onName) valid() error         { return nil }
func (n onName) narrow(ops []Op) []Op { return only(ops, namedOps) }

func (n onName) fresh() func(*call) bool {
	return func(c *call) bool { return slices.Contains(c.names, string(n)) }
}

// Nth returns f for the n-th call that gets to it, counted from 1.
func Nth(n int, f Fault) Fault { return when{nth(n), orNone(f)} }

type nth int

func (n nth) head() string         { return fmt.Sprintf("nth(%d", int(n)) }
func (n nth) narrow(ops []Op) []Op { return ops }

func (n nth) valid() error {
	if n < 1 {
		return fmt.Errorf("calls are counted from 1, not %d", int(n))
	}
	return nil
}

func (n nth) fresh() func(*call) bool {
	seen := nth(0)
	return func(*call) bool { seen++; return seen == n }
}

// After returns f for all calls that get to it but the first n.
func After(n int, f Fault) Fault { return when{afterN(n), orNone(f)} }

type afterN int

func (n afterN) head() string         { return fmt.Sprintf("after(%d", int(n)) }
func (n afterN) narrow(ops []Op) []Op { return ops }

func (n afterN) valid() error {
	if n < 0 {
		return fmt.Errorf("want the number of calls to spare, not %d", int(n))
	}
	return nil
}

func (n afterN) fresh() func(*call) bool {
	seen := afterN(0)
	// Counting stops behind n, so that it never overflows.
	return func(*call) bool {
		if seen <= n {
			seen++
		}
		return seen > n
	}
}

// Prob returns f for each call with probability p, from 0 to 1. The seed makes
// the choice, not the schedule: see the package comment.
func Prob(p float64, seed uint64, f Fault) Fault { return when{prob{p, seed}, orNone(f)} }

type prob struct {
	p    float64
	seed uint64
}

func (r prob) head() string {
	return fmt.Sprintf("prob(%s, %d", strconv.FormatFloat(r.p, 'g', -1, 64), r.seed)
}

func (r prob) narrow(ops []Op) []Op { return ops }

func (r prob) valid() error {
	if !(r.p >= 0 && r.p <= 1) { // not the reverse comparison: NaN fails both
		return fmt.Errorf("want a probability from 0 to 1, not %v", r.p)
	}
	return nil
}

func (r prob) fresh() func(*call) bool {
	return func(c *call) bool {
		// SHA-256 and not hash/maphash, whose values differ from run to run.
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %d %s", r.seed, c.op, c.index, c.about))
		const bits = 53 // of a float64's mantissa
		roll := binary.BigEndian.Uint64(sum[:]) >> (64 - bits)
		return float64(roll)/(1<<bits) < r.p
	}
}

// During returns f for calls made from from until before to, counted from
// Wrap.
func During(from, to time.Duration, f Fault) Fault { return when{during{from, to}, orNone(f)} }

type during struct{ from, to time.Duration }

func (d during) head() string         { return fmt.Sprintf("during(%s, %s", d.from, d.to) }
func (d during) narrow(ops []Op) []Op { return ops }

func (d during) valid() error {
	if d.from < 0 || d.to <= d.from {
		return fmt.Errorf("want a time from 0s on that ends after it begins, not %s to %s", d.from, d.to)
	}
	return nil
}

func (d during) fresh() func(*call) bool {
	return func(c *call) bool { return d.from <= c.since && c.since < d.to }
}

// For returns f for all calls that get to it, from the first one on, for d.
func For(d time.Duration, f Fault) Fault { return when{lasting(d), orNone(f)} }

type lasting time.Duration

func (d lasting) head() string         { return fmt.Sprintf("for(%s", time.Duration(d)) }
func (d lasting) narrow(ops []Op) []Op { return ops }

func (d lasting) valid() error {
	if d <= 0 {
		return fmt.Errorf("want a time above 0s, not %s", time.Duration(d))
	}
	return nil
}

func (d lasting) fresh() func(*call) bool {
	var first time.Duration
	begun := false
	return func(c *call) bool {
		if !begun {
			begun, first = true, c.since
		}
		return c.since-first < time.Duration(d)
	}
}

// only returns the operations that are in both lists.
func only(ops, allowed []Op) []Op {
	return slices.DeleteFunc(slices.Clone(ops), func(op Op) bool { return !slices.Contains(allowed, op) })
}
