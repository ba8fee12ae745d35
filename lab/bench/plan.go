// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fencelock/fencelock/lab/bench/internal/report"
	"github.com/fencelock/fencelock/lab/bench/internal/suite"
)

// plan is a run of a suite, as the command line asks for it.
type plan struct {
	suite, only, out string
	repetitions      int
	each             time.Duration
}

// run runs the parts of a suite and prints a table for each. A whole suite is
// written down as well, some parts only if asked for.
func (p plan) run(ctx context.Context, e *suite.Env) error {
	s, err := suite.Named(p.suite)
	if err != nil {
		return err
	}
	parts, err := s.Only(strings.FieldsFunc(p.only, func(r rune) bool { return r == ',' }))
	if err != nil {
		return err
	}
	r := &report.Report{Suite: s.Name, Command: "go run ./lab/bench " + strings.Join(os.Args[1:], " "), Machine: report.ThisMachine()}
	e = e.Lasting(p.repetitions, p.each)
	e.Start, e.KeepGoing = s.Start, true
	if p.out == "" && p.only == "" {
		p.out = filepath.Join("lab", "results", "benchmarks")
	}
	for _, part := range parts {
		if err := p.part(ctx, e, r, part); err != nil {
			return fmt.Errorf("%s: %w", part.Name, err)
		}
		if p.out == "" {
			continue
		}
		if err := r.Write(p.out); err != nil { // after each, so that half a run is not lost
			return err
		}
	}
	return nil
}

// part runs one part on a new server, so that no part meets what another left.
func (p plan) part(ctx context.Context, e *suite.Env, r *report.Report, part *suite.Part) (err error) {
	e.Server, err = e.Start(ctx)
	if err != nil {
		return err
	}
	defer e.Server.Stop()
	r.Server, err = e.Server.Version(ctx)
	if err != nil {
		return err
	}
	cells, err := part.Run(ctx, e)
	if err != nil {
		return err
	}
	done := report.NewPart(part, cells)
	done.Print(os.Stdout)
	r.Parts = append(r.Parts, done)
	return nil
}

// redraw draws the charts of all suites again, from stored results.
func redraw(dir string) error {
	for _, s := range suite.All {
		if err := report.Redraw(dir, s); err != nil {
			return err
		}
	}
	return nil
}
