// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock/torture/internal/cell"
	"github.com/fencelock/fencelock/torture/internal/check"
	"github.com/fencelock/fencelock/torture/internal/engine"
	"github.com/fencelock/fencelock/torture/internal/fault"
	"github.com/fencelock/fencelock/torture/internal/zoo"
)

// rounds is how often an animal is run, each time with another seed, before it
// counts as a survivor.
const rounds = 12

// visit runs the zoo, or the animals that are named.
func visit(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("torture zoo", flag.ContinueOnError)
	write := fs.String("write", "", "file in which the table is kept up to date")
	if err := fs.Parse(args); err != nil {
		return err
	}
	names := fs.Args()
	survivors, caught, wrong := 0, 0, 0
	table := "| Broken lock | What is wrong | Caught by | After |\n| --- | --- | --- | --- |\n"
	if len(names) == 0 {
		for _, name := range zoo.Controls {
			if err := control(ctx, name); err != nil {
				fmt.Println(err)
				wrong++
			}
		}
	}
	for _, a := range zoo.Animals {
		if ctx.Err() != nil || len(names) > 0 && !slices.Contains(names, a.Name) {
			continue
		}
		v, after, err := hunt(ctx, a)
		if err != nil {
			fmt.Printf("zoo %-24s SURVIVED %v\n", a.Name, err)
			survivors++
			table += fmt.Sprintf("| %s | %s | nobody | |\n", a.Name, a.Flaw)
			continue
		}
		caught++
		table += fmt.Sprintf("| %s | %s | %s | %.1f s |\n", a.Name, a.Flaw, v.Check, after.Seconds())
		fmt.Printf("zoo %-24s caught by %s after %5.1fs: %s\n", a.Name, v.Check, after.Seconds(), v.Text)
	}
	fmt.Printf("figure torture-zoo-survivors %d =0\nfigure torture-zoo-caught %d >=30\nfigure torture-zoo-sound-refused %d =0\n", survivors, caught, wrong)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := rewrite(*write, "zoo", table); err != nil {
		return err
	}
	if survivors+wrong > 0 {
		return fmt.Errorf("%d broken locks survived, and the sound one was refused %d times", survivors, wrong)
	}
	return nil
}

// control runs the sound lock, which must hold whatever a lock must.
func control(ctx context.Context, name string) error {
	e, _ := engine.Named("redis")
	e.Fair = false
	k, _ := fault.Named(name)
	r := cell.Run(ctx, cell.Cell{Engine: e, Fault: k, Seed: 1, Lock: zoo.Prefix + zoo.Sound, Long: 4})
	fmt.Printf("zoo %-24s %s in %s %s\n", zoo.Sound, r.Status, name, r.Reason)
	if r.Status == cell.Failed {
		return fmt.Errorf("zoo: the sound lock was refused: %v", r.Violations)
	}
	return nil
}

// hunt runs an animal until a checker that should object does, and says after
// how long. What depends on time does not count on a machine that stalls.
func hunt(ctx context.Context, a zoo.Animal) (check.Violation, time.Duration, error) {
	c := cell.Cell{Lock: zoo.Prefix + a.Name, Guard: a.Guard, Clients: a.Clients, Long: 4}
	if a.Guard != "" {
		c.Lock = zoo.Prefix + zoo.Sound
	}
	c.Engine, _ = engine.Named("redis")
	if a.Engine != "" {
		c.Engine, _ = engine.Named(a.Engine)
	}
	var err error
	if a.Plan != "" {
		c.Fault = fault.Kind{Name: "plan"}
		if c.Plan, err = fault.Parse(a.Plan); err != nil {
			return check.Violation{}, 0, err
		}
	} else {
		c.Fault, _ = fault.Named(a.Fault)
	}
	began := time.Now()
	last := ""
	for c.Seed = 1; c.Seed <= rounds && ctx.Err() == nil; c.Seed++ {
		before := time.Since(began)
		r := cell.Run(ctx, c)
		last = fmt.Sprintf("%s %s %v", r.Status, r.Reason, r.Counts)
		for _, v := range r.Violations {
			if slices.Contains(a.Caught, v.Check) && v.Property != check.U && (v.Property == check.F || v.Property == check.T || r.Status != cell.NotRun) {
				return v, before + time.Duration(v.At-r.Events[0].At), nil
			}
		}
	}
	return check.Violation{}, 0, fmt.Errorf("%d rounds, the last: %s", rounds, last)
}
