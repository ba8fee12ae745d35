// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"

	"github.com/fencelock/fencelock"
)

// run is one run of an occurrence.
type run struct {
	Event
	began  stamp
	ended  stamp // unmet: it failed
	marked stamp // Once.Do returned; unmet: it never did, or the run failed
	sure   bool  // the mark was confirmed
	err    error // else this was the answer
}

// checkOnce: an occurrence that was run to its end is not run beside it or
// again, for as long as its mark is kept. That holds for a mark that was
// confirmed, and for one whose withdrawal is repeated in the background as long
// as its session lives. It does not hold if the store lost the mark with its
// data, if its clock jumped over the end of the mark, or if two may hold a lock
// because the store lost grants without a grace period: the grant of the run
// itself, or the grant of another run that was granted before it and began after
// it. Nor is the lock of the occurrence acquired in another way in that time.
func checkOnce(v *view, bad complain) {
	if !v.clockSane {
		return
	}
	keep := markKeep(v.h.Schedule.T) * 98 / 100 // by the store's clock
	for name, list := range v.runs() {
		for i, r := range list {
			if !v.promised(r) {
				continue
			}
			for _, a := range v.names[name] {
				if a.ok && a.returned.n > r.marked.n && a.returned.at < r.ended.at+keep && !v.markLost(r, a.asRun()) {
					bad([]*acq{a}, "%s was run by c%d.%d to its end at %v, and #%d got its lock at %v", name, r.Client, r.Worker,
						r.ended.at, a.call.Acq, a.returned.at)
				}
			}
			for _, again := range list[i+1:] {
				if again.At < r.ended.at+keep && !v.markLost(r, again) {
					bad(nil, "%s was run by c%d.%d at %v to its end at %v, and by c%d.%d at %v (tokens %d, %d)",
						name, r.Client, r.Worker, r.At, r.ended.at, again.Client, again.Worker, again.At, r.Token, again.Token)
				}
			}
		}
	}
}

// promised reports whether a run has to leave its mark.
func (v *view) promised(r *run) bool {
	if r.ended == unmet || r.marked == unmet {
		return false
	}
	if r.sure {
		return true
	}
	if errors.Is(r.err, fencelock.ErrLost) {
		return false
	}
	// It is repeated for as long as the process and its session live.
	_, dead := v.killed[r.Client]
	closed, is := v.closed[r.Client]
	if dead || is && closed.n < v.clear.n {
		return false
	}
	for _, at := range v.sessionsLost[r.Client] {
		if at.n > r.Since {
			return false
		}
	}
	return true
}

// asRun returns an acquisition as a run of the occurrence whose lock it got.
func (a *acq) asRun() *run {
	return &run{Event: Event{Since: a.called.n, Token: a.token}, began: a.returned}
}

// markLost reports whether the store may have lost the mark of r, or the grant
// that it comes from, before another run of the occurrence. It also reports true
// if the other run was granted before r and the store lost that grant: r got the
// lock then, and the answer to the other run was still on its way.
func (v *view) markLost(r, again *run) bool {
	older := again.Token < r.Token || !v.tokensSane
	for _, loss := range v.dataLosses {
		switch {
		case older && !v.h.Schedule.Store.Grace && again.Since <= loss.n && loss.n < r.began.n:
			return true // the grant of again: r began without knowing of it
		case loss.n < r.Since || loss.n > again.began.n: // before it was asked for, or after both
		case !r.sure:
			return true
		case loss.n > r.marked.n:
			if loss.Kind == LostData || loss.Since <= r.marked.n {
				return true
			}
		case loss.n > r.ended.n:
			return true // perhaps: the mark was on its way
		case !v.h.Schedule.Store.Grace:
			return true // the grant: no holder gets it back
		}
	}
	return false
}

// runs returns the runs of each occurrence in the order in which they began.
func (v *view) runs() map[string][]*run {
	type who struct {
		name           string
		client, worker int
	}
	runs := map[string][]*run{}
	last := map[who]*run{}
	for n, e := range v.h.Events {
		by, at := who{e.Name, e.Client, e.Worker}, stamp{n, e.At}
		switch e.Kind {
		case Began:
			last[by] = &run{Event: e, began: at, ended: unmet, marked: unmet}
			runs[e.Name] = append(runs[e.Name], last[by])
		case Ended:
			last[by].ended = at
		case Marked:
			last[by].marked, last[by].sure, last[by].err = at, e.OK, e.Err
		}
	}
	return runs
}
