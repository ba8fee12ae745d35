// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"slices"
)

// access is one use of a resource with a token.
type access struct {
	Event
	a    *acq
	here stamp
}

// checkFence: the tokens in a resource's list never fall; what a writer read is
// what it appends to, and what a reader reads again is the same; and as long as
// a holder is one by its own knowledge it is not refused.
func checkFence(v *view, bad complain) {
	byID := map[int]*acq{}
	for _, a := range v.acqs {
		byID[a.call.Acq] = a
	}
	written := map[string][]access{}
	expect := map[int]int{} // by acquisition: how long the list must be
	for n, e := range v.h.Events {
		if e.Kind != Read && e.Kind != Wrote {
			continue
		}
		x := access{e, byID[e.Acq], stamp{n, e.At}}
		if !e.OK {
			v.refused(x, bad)
			continue
		}
		if want, again := expect[e.Acq]; again && e.N != want && (e.Kind == Wrote || x.a.shared(x.here)) {
			bad([]*acq{x.a}, "#%d of %s read with token %d that %d values were there, and at its next access, which was let in, there were %d",
				e.Acq, x.a.call.Name, e.Token, want, e.N)
		}
		expect[e.Acq] = e.N
		if e.Kind == Wrote {
			expect[e.Acq]++
			written[x.a.call.Name] = append(written[x.a.call.Name], x)
		}
	}
	for name, list := range written {
		slices.SortStableFunc(list, func(a, b access) int { return cmp.Compare(a.N, b.N) })
		for i := 1; i < len(list); i++ {
			o, x := list[i-1], list[i]
			if o.N == x.N || o.Token > x.Token {
				bad([]*acq{o.a, x.a}, "%s: value %d has token %d and value %d has token %d", name, o.N, o.Token, x.N, x.Token)
			}
		}
	}
}

// refused complains if the resource refused a holder that was one in time: then
// another client has used a higher token. A holder that was broken is refused
// rightly, and so may readers be beside one, and a client that has not reclaimed yet
// when a holder is broken that the store took for one: the fence is above them.
func (v *view) refused(x access, bad complain) {
	if v.brokenBefore(x.a.call.Name, x.here) && (x.a.broken.n < x.here.n || x.a.shared(x.here) || v.dataLost) {
		return
	}
	if _, dazed := v.dazed(x.a.call.Client, x.here.at); dazed {
		return
	}
	if v.sane() && v.tokensSane && x.a.holds(x.here) {
		bad([]*acq{x.a}, "#%d of %s holds the lock and its token %d was refused", x.Acq, x.a.call.Name, x.Token)
	}
}
