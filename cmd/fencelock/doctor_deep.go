// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/drivertest"
)

// deepNamespace is used unless another is chosen: a check must not meet the
// locks of an application.
const deepNamespace = "fencelock-doctor"

// clauseCase is what came of a case of the contract.
type clauseCase struct {
	Case    string   `json:"case"`
	Rule    string   `json:"rule"`
	Result  string   `json:"result"` // passed, failed, skipped
	Why     []string `json:"why,omitempty"`
	Seconds float64  `json:"seconds"`
}

// checkContract runs the store clauses against the store as it is deployed.
func (a *app) checkContract(parent context.Context, ttl time.Duration, only []string) ([]clauseCase, error) {
	ctx, stop := untilSignal(parent)
	defer stop()
	url, err := a.urlOfStore()
	if err != nil {
		return nil, err
	}
	ns := cmp.Or(a.ns, deepNamespace)
	var stores []*opened
	defer func() {
		for _, s := range stores {
			_ = s.Close()
		}
	}()
	h := &drivertest.Harness{TTL: ttl, Open: func() (driver.Store, error) {
		s, err := a.open(ctx, url, ns)
		if err != nil {
			return nil, err
		}
		stores = append(stores, s)
		return s, nil
	}}
	if err := a.usable(ctx, h); err != nil {
		return nil, err // once, with its exit code, and not as so many violated clauses
	}
	table := a.format != "json"
	if table {
		fmt.Fprintf(a.out, "\nStore clauses; most take a few TTLs (%v), all of them a minute or two\n", ttl)
	}
	cases, err := a.runCases(ctx, h, only)
	if err == nil && table {
		counts := map[string]int{}
		for _, c := range cases {
			counts[c.Result]++
		}
		fmt.Fprintf(a.out, "%d cases: %d passed, %d failed, %d skipped\n", len(cases), counts["passed"], counts["failed"], counts["skipped"])
	}
	return cases, err
}

// usable reports why no lock can be taken at all: missing tables or permissions are not
// violated clauses. A grace period is no obstacle: the cases wait for its end.
func (a *app) usable(ctx context.Context, h *drivertest.Harness) error {
	store, err := h.Open()
	if err != nil {
		return err
	}
	c, err := fencelock.New(store, &fencelock.Options{CallTimeout: a.timeout, Patience: a.timeout})
	if err != nil {
		return withCode(exitUsage, err)
	}
	_, err = a.tryLock(ctx, c)
	if errors.Is(err, fencelock.ErrBusy) || errors.Is(err, fencelock.ErrGrace) {
		err = nil
	}
	if closed := c.Close(ctx); err == nil {
		err = closed
	}
	return err
}

// runCases runs the cases that are wanted, one after the other.
func (a *app) runCases(ctx context.Context, h *drivertest.Harness, only []string) ([]clauseCase, error) {
	done := []clauseCase{}
	for _, c := range drivertest.Cases() {
		if !chosen(c.Clause.ID, only) {
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		began := time.Now()
		r := c.Check(ctx, h)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx) // what an interrupted case found says nothing
		}
		v := clauseCase{Case: c.Name, Rule: c.Clause.Rule, Result: "passed", Seconds: time.Since(began).Seconds()}
		if r.Skipped != "" {
			v.Result, v.Why = "skipped", []string{r.Skipped}
		}
		for _, f := range r.Failures {
			v.Result = "failed"
			v.Why = append(v.Why, f.Text)
		}
		done = append(done, v)
		if a.format != "json" {
			fmt.Fprintf(a.out, "%-8s %-36s %5.1fs  %s\n", v.Result, v.Case, v.Seconds, text.Clean(strings.Join(v.Why, "; ")))
		}
	}
	if len(done) == 0 {
		return nil, usage("no clause begins with %s", strings.Join(only, " or "))
	}
	return done, errors.Join(context.Cause(ctx))
}

func chosen(id string, only []string) bool {
	for _, prefix := range only {
		if strings.HasPrefix(id, prefix) {
			return true
		}
	}
	return len(only) == 0
}
