// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fencelock/fencelock/internal/figure"
)

func TestFiguresOfACommand(t *testing.T) {
	c := command{figures: []figure.Figure{{Name: "ran", Goal: figure.AtLeast(2)}, {Name: "wrong", Goal: figure.Exactly(0)}}}
	for _, tt := range []struct {
		name, output string
		failed       error
		want         string
		met          bool
	}{
		{"all is well", "x\nfigure ran 3 >=2\nfigure wrong 0 =0\nok\n", nil, "[figure ran 3 >=2 figure wrong 0 =0]", true},
		{"a goal missed", "figure ran 3 >=2\nfigure wrong 1 =0\n", errors.New("exit status 1"), "[figure ran 3 >=2 figure wrong 1 =0]", false},
		{"its own goal is lower", "figure ran 1 >=1\nfigure wrong 0 =0\n", nil, "[figure ran 1 >=2 figure wrong 0 =0]", false},
		{"no output", "", nil, "[figure ran missing >=2 figure wrong missing =0]", false},
		{"failed with good figures", "figure ran 3 >=2\nfigure wrong 0 =0\n", errors.New("exit status 1"), "[figure ran 3 >=2 figure wrong missing =0]", false},
	} {
		figures, met := c.read(tt.output, tt.failed)
		if got := fmt.Sprint(figures); got != tt.want || met != tt.met {
			t.Errorf("%s: %s, met %v; want %s, %v", tt.name, got, met, tt.want, tt.met)
		}
	}
}
