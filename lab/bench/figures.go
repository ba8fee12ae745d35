// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/bench/internal/report"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// question is a measurement, and the figures that are read from it.
type question struct {
	// part of the suite that shows more.
	part string
	// last questions can be asked once only.
	last bool
	// feeds is the figure of a later question that is computed from this one, for -only; empty if none is.
	feeds string
	// metrics are what to show of the cells behind the figures.
	metrics []string
	measure measurement
	// count is a measurement without cells: the values of the figures, in their order.
	count   func(ctx context.Context, e *suite.Env) ([]float64, error)
	figures []query
}

type measurement func(ctx context.Context, e *suite.Env) (suite.Cells, error)

// query is a figure, with how it is read from cells.
type query struct {
	name string
	goal figure.Bound
	read reading
}

type reading func(suite.Cells) float64

// gives are the names of its figures, for -only.
func (q *question) gives() (names []string) {
	for _, f := range q.figures {
		names = append(names, f.name)
	}
	return names
}

// ask measures and reads the figures.
func (q *question) ask(ctx context.Context, e *suite.Env) (all []figure.Figure, cells suite.Cells, err error) {
	var values []float64
	if q.count != nil {
		values, err = q.count(ctx, e)
	} else {
		cells, err = q.measure(ctx, e)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, f := range q.figures {
		if f.read != nil {
			values = append(values, f.read(cells))
		}
	}
	for i, v := range values {
		all = append(all, figure.Figure{Name: q.figures[i].name, Value: v, Goal: q.figures[i].goal, Part: q.part})
	}
	return all, cells, nil
}

// ask prints the figures of all questions, each with what is behind it. floors may
// be nil.
func ask(ctx context.Context, e *suite.Env, questions []question, floors figure.Floors) ([]figure.Figure, error) {
	var all []figure.Figure
	for _, q := range questions {
		a, err := insist(ctx, e, q, floors)
		if err != nil {
			return nil, err
		}
		if len(a.cells) > 0 {
			report.Table(os.Stdout, a.cells, q.metrics)
		}
		if a.times > 1 {
			fmt.Println(a.note())
		}
		for _, f := range a.figures {
			fmt.Println(f)
		}
		all = append(all, a.figures...)
	}
	return all, nil
}

// figureSets are what -figures prints. Those of a store fail if a figure cannot be
// measured, not if it misses its goal, which depends on the machine; core and fence fail
// for both reasons.
var figureSets = map[string]func(context.Context, *suite.Env, selection) error{
	"core": whole(coreFigures), "fence": whole(fenceFigures), "scale": whole(scaleFigures),
	"redis": redisFigures, "redis-long": asked(redisLong), "linger": asked(linger),
	"etcd": asked(etcd), "zk": asked(zk), "sql": asked(sqlAll), "sql-crowd": asked(sqlCrowd),
}

// figures prints one of figureSets.
func figures(ctx context.Context, e *suite.Env, name string, only selection) error {
	set, ok := figureSets[name]
	if !ok {
		return fmt.Errorf("unknown -figures %s; there are %s", name, strings.Join(slices.Sorted(maps.Keys(figureSets)), ", "))
	}
	if e.Scale != 0 && e.Scale != 1 {
		fmt.Printf("note: -scale %v: figures with many locks, sessions or readers are measured with fewer\n", e.Scale)
	}
	return set(ctx, e, only)
}

//go:embed floors.txt
var floorsText string

// quick prints the figures that are counts or processor time, and fails if one is below
// its floor.
func quick(ctx context.Context, e *suite.Env) error {
	floors, err := figure.ParseFloors(floorsText)
	if err != nil {
		return err
	}
	all, err := redisQuick(ctx, e.Lasting(3, 150*time.Millisecond), floors)
	if err != nil {
		return err
	}
	return floors.Judge(suite.Redis.Name, all)
}

// again is how often a question is asked again whose figures are below a floor. A
// machine that was busy for a moment does better the next time; a regression does
// not.
const again = 2

// answer is what came of a question.
type answer struct {
	figures []figure.Figure
	cells   suite.Cells // of the last time
	times   int         // it was asked
	below   string      // why it was asked again
}

// note explains why the figures differ from the table. It is on a separate line, because
// programs read the lines of figures.
func (a *answer) note() string {
	return fmt.Sprintf("note: asked %d times, because of %s; each figure is the best of %d, the table is the last", a.times, a.below, a.times)
}

// insist asks a question until its figures are above their floors, or often enough.
func insist(ctx context.Context, e *suite.Env, q question, floors figure.Floors) (*answer, error) {
	figures, cells, err := q.ask(ctx, e)
	a := &answer{figures: figures, cells: cells, times: 1}
	for range again {
		below := floors.Below(a.figures)
		if err != nil || q.last || len(below) == 0 {
			break
		}
		if a.below == "" {
			a.below = fmt.Sprintf("%s, which was %s", below[0].Name, figure.Number(below[0].Value))
		}
		e.Progress("below a floor, asked again: %v", below)
		a.times++
		figures, a.cells, err = q.ask(ctx, e)
		if err == nil {
			for i := range a.figures {
				a.figures[i] = floors.Better(a.figures[i], figures[i])
			}
		}
	}
	return a, err
}

// selection is which figures to measure: those whose names begin with one of these. An
// empty selection is all of them.
type selection []string

// parseSelection reads beginnings of names, with commas between them.
func parseSelection(text string) selection {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

// wants reports whether a figure is selected.
func (s selection) wants(name string) bool {
	return len(s) == 0 || slices.ContainsFunc(s, func(beginning string) bool { return strings.HasPrefix(name, beginning) })
}

// of returns the questions that give a selected figure. A beginning that no figure has is
// an error: it is a typing error, and would measure nothing.
func (s selection) of(questions []question) ([]question, error) {
	var known []string
	for _, q := range questions {
		known = append(known, q.gives()...)
	}
	for _, beginning := range s {
		if !slices.ContainsFunc(known, selection{beginning}.wants) {
			return nil, fmt.Errorf("-only: the name of no figure begins with %q; there are %s", beginning, strings.Join(known, ", "))
		}
	}
	return s.among(questions), nil
}

// among returns the questions that give or feed a selected figure, or no question.
func (s selection) among(questions []question) []question {
	return slices.DeleteFunc(slices.Clone(questions), func(q question) bool {
		return !slices.ContainsFunc(q.gives(), s.wants) && (q.feeds == "" || !s.wants(q.feeds))
	})
}

// whole is a set of figures that are only measured together.
func whole(set func(context.Context, *suite.Env) error) func(context.Context, *suite.Env, selection) error {
	return func(ctx context.Context, e *suite.Env, only selection) error {
		if len(only) > 0 {
			return errors.New("-only does not select among these figures: they are measured together")
		}
		return set(ctx, e)
	}
}
