// SPDX-License-Identifier: Apache-2.0

package figure

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Floors are what figures must not fall below, by name. A floor is not a goal: it
// is where a busy machine cannot explain a figure any more, and a change of ours
// must.
type Floors map[string]Bound

// ParseFloors reads lines of a name and a bound. Empty lines and those that begin
// with # are skipped.
func ParseFloors(text string) (Floors, error) {
	floors := Floors{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, bound, _ := strings.Cut(line, " ")
		b, err := ParseBound(strings.TrimSpace(bound))
		if err != nil {
			return nil, fmt.Errorf("floors, line %d: %w", n, err)
		}
		if _, twice := floors[name]; twice {
			return nil, fmt.Errorf("floors, line %d: %s is there twice", n, name)
		}
		floors[name] = b
	}
	return floors, nil
}

// Below returns the figures that are below their floor.
func (f Floors) Below(figures []Figure) []Figure {
	var below []Figure
	for _, fig := range figures {
		if floor, ok := f[fig.Name]; ok && !floor.Holds(fig.Value) {
			below = append(below, fig)
		}
	}
	return below
}

// Better returns the one of two measurements of a figure that is further from its
// floor. That favors passing, and is meant to: a floor is to catch what is below it
// each time. It does not make the better one the truer one. A busy machine makes an
// amount worse, but a ratio better as well, when it slows the other side of it.
func (f Floors) Better(a, b Figure) Figure {
	switch floor := f[a.Name]; {
	case math.IsNaN(a.Value), floor.rel == "<=" && b.Value < a.Value, floor.rel == ">=" && b.Value > a.Value:
		return b
	}
	return a
}

// Judge returns an error that names every figure below its floor and the
// command for details. A figure without a floor, and a floor without a figure, are errors too:
// a check that is never made would look as if it had passed.
func (f Floors) Judge(suite string, figures []Figure) error {
	var errs []error
	seen := map[string]bool{}
	for _, fig := range figures {
		seen[fig.Name] = true
		floor, ok := f[fig.Name]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("%s has no floor; write one", fig.Name))
		case !floor.Holds(fig.Value):
			errs = append(errs, fmt.Errorf("%s is %s and must be %s, whatever the machine does: a regression, or the floor is wrong; for details run go run ./lab/bench -suite %s -only %s",
				fig.Name, Number(fig.Value), floor, suite, fig.Part))
		}
	}
	for name := range f {
		if !seen[name] {
			errs = append(errs, fmt.Errorf("the floor of %s was not checked: nothing measured it", name))
		}
	}
	return errors.Join(errs...)
}
