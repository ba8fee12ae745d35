// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/server"
	"github.com/fencelock/fencelock/lab/torture/internal/check"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
)

// What was ordered did not always happen. The functions of this file check, and
// their errors make the cell one that was not run. Nothing is asked of a fault that
// may leave everything as it is, such as a leader that is cut off in one direction.

// enough is how many TTLs a leader has to be away that another one must lead.
const enough = 3

// replaced reports by its error whether server i still leads, after a step that another
// server should follow. It waits for a takeover that was ordered; what was given
// time before is over when it asks.
func (r *run) replaced(ctx context.Context, s fault.Step, i int) error {
	if r.rig.Master == nil || s.Target != "master" {
		return nil
	}
	var patience time.Duration
	switch s.Verb {
	case fault.Failover:
		patience = 10 * time.Second
	case fault.Kill, fault.Isolate:
		if s.For < enough*r.c.TTL {
			return nil
		}
	default:
		return nil
	}
	for end := time.Now().Add(patience); ; sleep(ctx, 20*time.Millisecond) {
		m, err := r.rig.Master()
		if err == nil && m != i {
			return nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return errors.Join(fmt.Errorf("no other server took over from server %d", i), err)
		}
	}
}

// watch is a server that reports the time.
type watch interface {
	Now(ctx context.Context) (time.Time, error)
}

// moveClock moves the clock of a server and asks the server whether it moved.
func moveClock(ctx context.Context, srv server.Server, c *servers.Clock, by time.Duration) error {
	w, ok := srv.(watch)
	if !ok {
		return errors.New("this server cannot be asked for the time")
	}
	before, err := w.Now(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := c.Move(by); err != nil {
		return err
	}
	after, err := w.Now(ctx)
	if err != nil {
		return err
	}
	if moved := after.Sub(before) - time.Since(began); (moved - by).Abs() > by.Abs()/2 {
		return fmt.Errorf("the clock of the server moved by %v", moved)
	}
	return nil
}

// runClock makes the clock of a server run at a share of its speed, in steps so small that
// no TTL notices them, and asks the server at the end whether it did.
func runClock(ctx context.Context, srv server.Server, c *servers.Clock, percent int, d time.Duration) error {
	w, ok := srv.(watch)
	if !ok {
		return errors.New("this server cannot be asked for the time")
	}
	before, err := w.Now(ctx)
	if err != nil {
		return err
	}
	began, off := time.Now(), time.Duration(0)
	for time.Since(began) < d && ctx.Err() == nil {
		sleep(ctx, 20*time.Millisecond)
		want := time.Since(began) * time.Duration(percent-100) / 100
		if err := c.Move(want - off); err != nil {
			return err
		}
		off = want
	}
	after, err := w.Now(ctx)
	if err != nil {
		return err
	}
	if moved := after.Sub(before) - time.Since(began); (moved - off).Abs() > off.Abs()/2 {
		return fmt.Errorf("the clock of the server moved by %v, not by %v", moved, off)
	}
	return nil
}

// refuser is a server that can be asked whether it takes a write.
type refuser interface {
	Refuses(ctx context.Context) (bool, error)
}

// refused waits for d, and reports by its error whether the server refused writes in
// that time. A full disk is noticed only by a write that needs space.
func refused(ctx context.Context, srv server.Server, d time.Duration) error {
	x, ok := srv.(refuser)
	if !ok {
		return errors.New("this server cannot be asked whether it refuses writes")
	}
	var last error
	for end := time.Now().Add(d); time.Now().Before(end); sleep(ctx, 20*time.Millisecond) {
		no, err := x.Refuses(ctx)
		if no {
			sleep(ctx, time.Until(end))
			return nil
		}
		last = err
	}
	return errors.Join(errors.New("the server took every write"), last)
}

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
