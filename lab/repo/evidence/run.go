// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/fencelock/fencelock/lab/internal/checkout"
	"github.com/fencelock/fencelock/lab/repo/internal/runs"
)

// run is one of runs.All.
type run struct{ runs.Run }

// all returns the runs in the order of the page.
func all() []run {
	var rs []run
	for _, r := range runs.All {
		rs = append(rs, run{r})
	}
	return rs
}

// missing returns the runs without a result of the code that is checked out.
func missing() ([]run, error) {
	var left []run
	for _, r := range all() {
		why, err := r.older()
		if err != nil {
			return nil, err
		}
		if why != "" {
			left = append(left, r)
		}
	}
	return left, nil
}

// older says why a run has to be run again, or "".
func (r run) older() (string, error) {
	res, err := read(r)
	switch {
	case err != nil:
		return "", err
	case res.commit == "":
		return "not run", nil
	case !res.passed:
		return "failed", nil
	}
	return checkout.Older(".", res.commit, r.Measures...)
}
