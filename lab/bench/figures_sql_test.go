// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/servers"
)

// TestMostOfNothing: without a database there is no figure, instead of one that meets its goal.
func TestMostOfNothing(t *testing.T) {
	missing := func(database) (float64, error) { return 0, fmt.Errorf("a server is %w", servers.ErrMissing) }
	if _, err := mostOf("statements", missing); !errors.Is(err, servers.ErrMissing) {
		t.Errorf("without a database: %v, want ErrMissing", err)
	}
	n, err := mostOf("statements", func(d database) (float64, error) {
		if d.short == "pg" {
			return missing(d)
		}
		return map[string]float64{"mariadb": 6, "mysql": 5}[d.short], nil
	})
	if err != nil || n != 6 {
		t.Errorf("got %v, %v, want the most of those that are installed", n, err)
	}
}

// TestWorstHandoff: the figure of the issue is that of the worst database, and to select it
// selects the crowds of all of them.
func TestWorstHandoff(t *testing.T) {
	var handoffs []float64
	q := worstHandoff(&handoffs)
	if _, _, err := q.ask(t.Context(), nil); !errors.Is(err, servers.ErrMissing) {
		t.Errorf("without a database: %v, want ErrMissing", err)
	}
	handoffs = []float64{2, 5.5, 5.1}
	got, _, err := q.ask(t.Context(), nil)
	if want := (figure.Figure{Name: "sql-statements-handoff", Value: 5.5, Goal: figure.AtMost(4), Part: "processes"}); err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, o := range sqlCrowd()[:len(databases)] {
		if len(parseSelection(statementsHandoff).among(o.questions)) != 1 {
			t.Errorf("%s is not selected", o.questions[0].gives()[0])
		}
	}
}
