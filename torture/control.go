// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock/torture/internal/cell"
	"github.com/fencelock/fencelock/torture/internal/check"
	"github.com/fencelock/fencelock/torture/internal/engine"
	"github.com/fencelock/fencelock/torture/internal/fault"
	"github.com/fencelock/fencelock/torture/internal/zoo"
)

// cage is the cell in which an animal is run.
func cage(a zoo.Animal) (cell.Cell, error) {
	c := cell.Cell{Lock: zoo.Prefix + a.Name, Guard: a.Guard, Clients: a.Clients, Long: 4, Seed: firstSeed}
	if a.Guard != "" {
		c.Lock = zoo.Prefix + zoo.Sound
	}
	c.Engine, _ = engine.Named(cmp.Or(a.Engine, "redis"))
	c.Engine.Fair = a.Name == zoo.SoundQueue
	if a.Plan == "" {
		c.Fault, _ = fault.Named(a.Fault)
		return c, nil
	}
	var err error
	c.Fault = fault.Kind{Name: "plan"}
	c.Plan, err = fault.Parse(a.Plan)
	return c, err
}

// place is where an animal is run, whatever its flaw.
type place struct {
	like, engine, fault, plan string
	clients                   int
}

func placeOf(a zoo.Animal) place {
	c := a.Control()
	return place{c.Name, c.Engine, c.Fault, c.Plan, c.Clients}
}

// controls runs the sound locks once in every place in which an animal is run. They
// must hold there: one that could not be run, even alone, is an error too.
func controls(ctx context.Context, animals []zoo.Animal) (map[place]cell.Result, error) {
	s := &schedule{parallel: 2, budget: time.Hour, run: cell.Run, say: func(string) {}}
	var places []place
	for _, a := range animals {
		if slices.Contains(places, placeOf(a)) {
			continue
		}
		c, err := cage(a.Control())
		if err != nil {
			return nil, err
		}
		s.cells, places = append(s.cells, c), append(places, placeOf(a))
	}
	results := map[place]cell.Result{}
	for i, r := range s.all(ctx) {
		results[places[i]] = r
		fmt.Printf("zoo %-24s %s in %s %s %s\n", places[i].like, r.Status, r.Fault, r.Plan, r.Reason)
	}
	return results, ctx.Err()
}

// controlOf is the control of an animal with the seed by which that was caught. If that
// is not the one of all controls it is run now, and once more if a busy machine spoilt
// it: of another seed come other plans and other clients.
func controlOf(ctx context.Context, a zoo.Animal, seed uint64, controls map[place]cell.Result) (cell.Result, error) {
	if seed == firstSeed {
		return controls[placeOf(a)], nil
	}
	c, err := cage(a.Control())
	if err != nil {
		return cell.Result{}, err
	}
	c.Seed = seed
	r := cell.Run(ctx, c)
	if r.Status == cell.NotRun {
		r = cell.Run(ctx, c)
	}
	fmt.Printf("zoo %-24s %s in %s %s seed %d %s\n", a.Control().Name, r.Status, r.Fault, r.Plan, seed, r.Reason)
	return r, ctx.Err()
}

// sound tells whether a control held, and whether it was clear of what an animal is
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
