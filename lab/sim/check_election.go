// SPDX-License-Identifier: Apache-2.0

package sim

import "github.com/fencelock/fencelock/driver"

// checkElection: what an observer sees of the terms never goes back, and a kept
// lock is no leader; Run ends for a reason that it was given; and Resign returns
// when the term is over. That two do not lead at a time, and that terms rise, is
// seen by the checkers of locks.
func checkElection(v *view, bad complain) {
	highest := map[int]driver.Token{}
	for _, e := range v.h.Events {
		switch {
		case e.Kind == Observed && e.Keep > 0:
			bad(nil, "c%d observed a leader with term %d at %v that was only kept", e.Client, e.Token, e.At)
		case e.Kind == Observed:
			if e.Token != 0 && e.Token < highest[e.Client] && v.tokensSane {
				bad(nil, "c%d observed term %d at %v after term %d", e.Client, e.Token, e.At, highest[e.Client])
			}
			highest[e.Client] = max(highest[e.Client], e.Token)
		case e.Kind == Campaigned && !e.OK && v.untouched(e.Client) && len(v.losses) == 0 && v.clockSane && !v.wentBack:
			if !v.brokenBefore(leaderName, unmet) {
				bad(nil, "c%d.%d campaigned until %v and ended for no reason with: %v", e.Client, e.Worker, e.At, e.Err)
			}
		}
	}
	for _, a := range v.names[leaderName] {
		if a.resigned != unmet && a.resigned.n < a.unlock.n {
			bad([]*acq{a}, "#%d was resigned from at %v, before its term was over", a.call.Acq, a.resigned.at)
		}
	}
}
