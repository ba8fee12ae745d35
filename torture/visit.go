// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock/torture/internal/cell"
	"github.com/fencelock/fencelock/torture/internal/check"
	"github.com/fencelock/fencelock/torture/internal/zoo"
)

// rounds is how often an animal is run, each time with another seed, before it
// counts as a survivor. firstSeed is the one with which all controls are run before.
const rounds, firstSeed = 12, 1

// visit runs the zoo, or the animals that are named.
func visit(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("torture zoo", flag.ContinueOnError)
	write := fs.String("write", "", "file in which the table is kept up to date")
	if err := fs.Parse(args); err != nil {
		return err
	}
	names := fs.Args()
	if len(names) > 0 && *write != "" {
		return errors.New("-write is for the whole zoo: a part would replace the table of all")
	}
	animals, err := named(names)
	if err != nil {
		return err
	}
	controls, err := controls(ctx, animals)
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
	for _, a := range animals {
		if ctx.Err() != nil {
			break
		}
		v, seed, after, err := hunt(ctx, a)
		if err == nil {
			var control cell.Result
			if control, err = controlOf(ctx, a, seed, controls); seed != firstSeed && sound(control, nil) != nil {
				wrong++
			}
			err = errors.Join(err, sound(control, a.Caught)) // or it is no catch
		}
		if err != nil {
			fmt.Printf("zoo %-24s SURVIVED %v\n", a.Name, err)
			survivors++
			table += fmt.Sprintf("| %s | %s | %s | nobody | |\n", a.Name, a.Flaw, a.AsIn)
			continue
		}
		caught++
		table += fmt.Sprintf("| %s | %s | %s | %s | %.1f s |\n", a.Name, a.Flaw, a.AsIn, v.Check, after.Seconds())
		fmt.Printf("zoo %-24s caught by %s after %5.1fs: %s\n", a.Name, v.Check, after.Seconds(), v.Text)
	}
	fmt.Printf("figure torture-zoo-survivors %d =0\nfigure torture-zoo-caught %d >=%d\nfigure torture-zoo-sound-refused %d =0\n", survivors, caught, min(30, len(animals)), wrong)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := rewrite(*write, "zoo", table); err != nil {
		return err
	}
	if survivors+wrong > 0 {
		return fmt.Errorf("%d broken locks survived, and a sound one did not hold %d times", survivors, wrong)
	}
	return nil
}

// named are the animals of those names, all if there is none.
func named(names []string) ([]zoo.Animal, error) {
	if len(names) == 0 {
		return zoo.Animals, nil
	}
	var animals []zoo.Animal
	for _, name := range names {
		i := slices.IndexFunc(zoo.Animals, func(a zoo.Animal) bool { return a.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("the zoo has no %q", name)
		}
		animals = append(animals, zoo.Animals[i])
	}
	return animals, nil
}

// hunt runs an animal until a checker that should object does, and says by which
// seed and after how long. What depends on time does not count on a machine that stalls.
func hunt(ctx context.Context, a zoo.Animal) (check.Violation, uint64, time.Duration, error) {
	c, err := cage(a)
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
