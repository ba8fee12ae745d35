// SPDX-License-Identifier: Apache-2.0

package sim

import "github.com/fencelock/fencelock/driver"

// checkFIFO: with a store that keeps a queue, tokens, which are the order of grants,
// are in the order in which claims first got to the store; and within a client waiters
// of a name are served in the order of their calls. A claim is granted once: it has one
// token until its session ends in the store. Left out are claims that
//
//   - lived through a data loss: the queue was built again;
//   - may join a grant with the same id;
//   - were reclaimed after their session had ended in the store: the first attempt after
//     that is not an arrival.
func checkFIFO(v *view, bad complain) {
	if v.tokensSane {
		if !v.h.Schedule.Store.NoQueue {
			checkArrivals(v, bad)
		}
		checkLocalQueue(v, bad)
	}
}

func checkArrivals(v *view, bad complain) {
	lines := map[string][]Claim{}
	for _, c := range v.h.Claims {
		if c.Token != 0 && !c.Restless && !c.Reclaimed && !c.Reentry {
			lines[c.Name] = append(lines[c.Name], c)
		}
		if c.Again != 0 && !c.Restless {
			bad(v.holdersOf(c.Name, c.Token, c.Again), "%s: a claim of c%d was granted twice (tokens %d, %d)", c.Name, c.Client, c.Token, c.Again)
		}
	}
	for name, line := range lines {
		// In the order of Before; the highest token of all whose first attempt
		// was over before this one began must be below this one's.
		byAfter := append([]Claim(nil), line...)
		sortBy(byAfter, func(c Claim) int { return c.After })
		next := 0
		var top Claim
		for _, c := range line {
			for next < len(byAfter) && byAfter[next].After < c.Before {
				if byAfter[next].Token > top.Token {
					top = byAfter[next]
				}
				next++
			}
			if top.Token > c.Token {
				bad(v.holdersOf(name, top.Token, c.Token),
					"%s: c%d came to the store before c%d and was granted after it (tokens %d, %d)", name, top.Client, c.Client, top.Token, c.Token)
			}
		}
	}
}

// holdersOf returns the acquisitions with these tokens.
func (v *view) holdersOf(name string, tokens ...driver.Token) (of []*acq) {
	for _, a := range v.names[name] {
		for _, t := range tokens {
			if a.ok && a.token.Base() == t {
				of = append(of, a)
			}
		}
	}
	return of
}

// queuesAtCall reports whether the acquisition takes its position in the client's queue
// when it is called.
func (a *acq) queuesAtCall() bool { return !a.call.Try && !a.call.All && a.call.Reentry == "" }

// checkLocalQueue compares only acquisitions of one client that waited: calls at the
// same instant may be in either order.
func checkLocalQueue(v *view, bad complain) {
	for name, acqs := range v.names {
		for i, a := range acqs {
			if !a.ok || !a.queuesAtCall() {
				continue
			}
			for _, b := range acqs[i+1:] {
				if b.called.n > a.returned.n {
					break
				}
				if b.ok && b.queuesAtCall() && b.call.Client == a.call.Client && a.called.at < b.called.at && b.token < a.token {
					bad([]*acq{a, b}, "%s: #%d asked before #%d of the same client and was served after it (tokens %d, %d)",
						name, a.call.Acq, b.call.Acq, a.token, b.token)
				}
			}
		}
	}
}
