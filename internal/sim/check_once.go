// SPDX-License-Identifier: Apache-2.0

package sim

import "time"

// run is one run of an occurrence.
type run struct {
	Event
	ended time.Duration
	done  bool // it came to its end and was marked
}

// checkOnce: an occurrence that was run to its end and marked is not run beside
// it or again, for as long as the mark is kept; unless the store forgot the mark,
// or its clock jumped over the end of it.
func checkOnce(v *view, bad complain) {
	if !v.sane() || v.amnesia {
		return
	}
	keep := markKeep(v.h.Schedule.T) * 98 / 100 // by the store's clock
	for name, list := range v.runs() {
		for i, r := range list {
			for _, again := range list[i+1:] {
				if r.done && again.At < r.ended+keep {
					bad(nil, "%s was run by c%d.%d at %v to its end at %v, and by c%d.%d at %v (tokens %d, %d)",
						name, r.Client, r.Worker, r.At, r.ended, again.Client, again.Worker, again.At, r.Token, again.Token)
				}
			}
		}
	}
}

// runs returns the runs of each occurrence in the order in which they began.
func (v *view) runs() map[string][]*run {
	type who struct {
		name           string
		client, worker int
	}
	runs := map[string][]*run{}
	last := map[who]*run{}
	for _, e := range v.h.Events {
		by := who{e.Name, e.Client, e.Worker}
		switch e.Kind {
		case Began:
			last[by] = &run{Event: e}
			runs[e.Name] = append(runs[e.Name], last[by])
		case Ended:
			last[by].ended = e.At
		case Marked:
			last[by].done = e.OK
		}
	}
	return runs
}
