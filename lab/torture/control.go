// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock/lab/internal/deployment"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/torture/internal/brokenlock"
	"github.com/fencelock/fencelock/lab/torture/internal/cell"
	"github.com/fencelock/fencelock/lab/torture/internal/check"
)

// cellOf is the cell in which a lock is run.
func cellOf(a brokenlock.Lock) (cell.Cell, error) {
	c := cell.Cell{Lock: brokenlock.Prefix + a.Name, Guard: a.Guard, Clients: a.Clients, Long: 4, Seed: firstSeed}
	if a.Guard != "" {
		c.Lock = brokenlock.Prefix + brokenlock.Sound
	}
	c.Deployment, _ = deployment.Named(cmp.Or(a.Deployment, "redis"))
	c.Deployment.Fair = a.Name == brokenlock.SoundQueue
	if a.Plan == "" {
		c.Fault, _ = fault.Named(a.Fault)
		return c, nil
	}
	var err error
	c.Fault = fault.Kind{Name: "plan"}
	c.Plan, err = fault.Parse(a.Plan)
	return c, err
}

// place is where a lock is run, whatever its flaw.
type place struct {
	like, deployment, fault, plan string
	clients                       int
}

func placeOf(a brokenlock.Lock) place {
	c := a.Control()
	return place{c.Name, c.Deployment, c.Fault, c.Plan, c.Clients}
}

// controls runs the sound locks once in every place in which a lock is run. They
// must hold there: one that could not be run, even alone, is an error too.
func controls(ctx context.Context, locks []brokenlock.Lock) (map[place]cell.Result, error) {
	s := &schedule{parallel: 2, budget: time.Hour, run: cell.Run, print: func(string) {}}
	var places []place
	for _, a := range locks {
		if slices.Contains(places, placeOf(a)) {
			continue
		}
		c, err := cellOf(a.Control())
		if err != nil {
			return nil, err
		}
		s.cells, places = append(s.cells, c), append(places, placeOf(a))
	}
	results := map[place]cell.Result{}
	for i, r := range s.all(ctx) {
		results[places[i]] = r
		fmt.Printf("broken %-24s %s in %s %s %s\n", places[i].like, r.Status, r.Fault, r.Plan, r.Reason)
	}
	return results, ctx.Err()
}

// controlOf is the control of a lock with the seed by which that was caught. If that
// is not the one of all controls it is run now, and once more if a busy machine spoilt
// it: of another seed come other plans and other clients.
func controlOf(ctx context.Context, a brokenlock.Lock, seed uint64, controls map[place]cell.Result) (cell.Result, error) {
	if seed == firstSeed {
		return controls[placeOf(a)], nil
	}
	c, err := cellOf(a.Control())
	if err != nil {
		return cell.Result{}, err
	}
	c.Seed = seed
	r := cell.Run(ctx, c)
	if r.Status == cell.NotRun {
		r = cell.Run(ctx, c)
	}
	fmt.Printf("broken %-24s %s in %s %s seed %d %s\n", a.Control().Name, r.Status, r.Fault, r.Plan, seed, r.Reason)
	return r, ctx.Err()
}

// sound reports whether a control held, and whether it was clear of what a lock is
// to be caught by.
func sound(control cell.Result, caught []string) error {
	if control.Status != cell.Held && control.Status != cell.Allowed {
		return fmt.Errorf("the sound lock did not hold in its place: %s, %s", control.Status, control.Reason)
	}
	for _, v := range control.Violations {
		if slices.Contains(caught, v.Check) && v.Property != check.U {
			return fmt.Errorf("%s objects to the sound lock in its place, too: %s", v.Check, v.Text)
		}
	}
	return nil
}
