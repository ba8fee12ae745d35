// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"fmt"
	"time"

	"github.com/fencelock/fencelock/lab/torture/internal/check"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
)

// reign names the master, "" where two never grant at once.
func (r *run) reign() (string, error) {
	if r.rig.Reign == nil {
		return "", nil
	}
	return r.rig.Reign()
}

// judgeMoved is Judge for a cell whose master was one and is another now. If no step
// of the plan gave a reason for that, a busy machine was taken for a dead server:
// the cell is about another fault, and was not run. What the guard let in is wrong
// for every master.
func judgeMoved(c Cell, events []history.Event, stall time.Duration, stuck error, was, now string) Result {
	if was == now || c.Deployment.Split(c.Fault) || c.Plan.Moves(c.TTL) {
		return Judge(c, events, stall, stuck)
	}
	c.Fault.Splits = true
	r := Judge(c, events, stall, stuck)
	if r.Counts[check.F] == 0 {
		r.Status, r.Reason = NotRun, fmt.Sprintf("a server took over and no fault of the plan was the reason: the master was %s, then %s", was, now)
	}
	return r
}
