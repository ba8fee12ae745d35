// SPDX-License-Identifier: Apache-2.0

package enum_test

import (
	"testing"

	"github.com/fencelock/fencelock/internal/enum"
)

func TestValueOutOfRangePrintsItsNumber(t *testing.T) {
	type color uint8
	for v, want := range map[color]string{0: "color(0)", 1: "red", 2: "green", 3: "color(3)", 255: "color(255)"} {
		if got := enum.String("color", v, "", "red", "green"); got != want {
			t.Errorf("got %q for %d, want %q", got, uint8(v), want)
		}
	}
}
