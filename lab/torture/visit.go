// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/torture/internal/brokenlock"
	"github.com/fencelock/fencelock/lab/torture/internal/cell"
	"github.com/fencelock/fencelock/lab/torture/internal/check"
)

// rounds is how often a lock is run, each time with another seed, before it
// counts as a survivor. firstSeed is the one with which all controls are run before.
const rounds, firstSeed = 12, 1

// visit runs the broken locks, or the locks that are named.
func visit(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("torture broken", flag.ContinueOnError)
	write := fs.String("write", "", "file in which the table is kept up to date")
	if err := fs.Parse(args); err != nil {
		return err
	}
	names := fs.Args()
	if len(names) > 0 && *write != "" {
		return errors.New("-write is for all broken locks: a part would replace the table of all")
	}
	locks, err := named(names)
	if err != nil {
		return err
	}
	controls, err := controls(ctx, locks)
	if err != nil {
		return err
	}
	survivors, caught, wrong := 0, 0, 0
	for _, r := range controls {
		if sound(r, nil) != nil {
			wrong++
		}
	}
	table := "| Broken lock | What is wrong | As in | Caught by | After |\n| --- | --- | --- | --- | --- |\n"
	for _, a := range locks {
		if ctx.Err() != nil {
			break
		}
		v, seed, after, err := hunt(ctx, a)
		if err == nil {
			var control cell.Result
			control, err = controlOf(ctx, a, seed, controls)
			if seed != firstSeed && sound(control, nil) != nil {
				wrong++
			}
			err = errors.Join(err, sound(control, a.Caught)) // or it does not count as caught
		}
		if err != nil {
			fmt.Printf("broken %-24s SURVIVED %v\n", a.Name, err)
			survivors++
			table += fmt.Sprintf("| %s | %s | %s | none | |\n", a.Name, a.Flaw, a.AsIn)
			continue
		}
		caught++
		table += fmt.Sprintf("| %s | %s | %s | %s | %.1f s |\n", a.Name, a.Flaw, a.AsIn, v.Check, after.Seconds())
		fmt.Printf("broken %-24s caught by %s after %5.1fs: %s\n", a.Name, v.Check, after.Seconds(), v.Text)
	}
	visitFigures(survivors, caught, wrong, len(locks))
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := rewrite(*write, "broken", table); err != nil {
		return err
	}
	if survivors+wrong > 0 {
		return fmt.Errorf("%d broken locks survived, and a sound one did not hold %d times", survivors, wrong)
	}
	return nil
}

func visitFigures(survivors, caught, wrong, all int) {
	figure.Print("torture-broken-survivors", survivors, figure.Exactly(0))
	figure.Print("torture-broken-caught", caught, figure.AtLeast(float64(min(30, all))))
	figure.Print("torture-sound-refused", wrong, figure.Exactly(0))
}

// named returns the locks of those names. Without names it returns all locks.
func named(names []string) ([]brokenlock.Lock, error) {
	if len(names) == 0 {
		return brokenlock.Locks, nil
	}
	var locks []brokenlock.Lock
	for _, name := range names {
		i := slices.IndexFunc(brokenlock.Locks, func(a brokenlock.Lock) bool { return a.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no broken lock %q", name)
		}
		locks = append(locks, brokenlock.Locks[i])
	}
	return locks, nil
}

// hunt runs a lock until a checker that should object does, and says by which
// seed and after how long. What depends on time does not count on a machine that stalls.
func hunt(ctx context.Context, a brokenlock.Lock) (check.Violation, uint64, time.Duration, error) {
	c, err := cellOf(a)
	if err != nil {
		return check.Violation{}, 0, 0, err
	}
	began := time.Now()
	last := ""
	for c.Seed = firstSeed; c.Seed < firstSeed+rounds && ctx.Err() == nil; c.Seed++ {
		before := time.Since(began)
		r := cell.Run(ctx, c)
		last = fmt.Sprintf("%s %s %v", r.Status, r.Reason, r.Counts)
		for _, v := range r.Violations {
			if slices.Contains(a.Caught, v.Check) && v.Property != check.U && (v.Property == check.F || v.Property == check.T || r.Status != cell.NotRun) {
				return v, c.Seed, before + time.Duration(v.At-r.Events[0].At), nil
			}
		}
	}
	return check.Violation{}, 0, 0, fmt.Errorf("%d rounds, the last: %s", rounds, last)
}
