// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/lab/bench/internal/scale"
)

// TestScalePageIsCurrent: the tables and the picture of growth are those of the kept results.
func TestScalePageIsCurrent(t *testing.T) {
	t.Chdir("../..")
	text, err := os.ReadFile(scalePage)
	must.OK(t, err)
	blocks, err := keptBlocks()
	must.OK(t, err)
	for name, block := range blocks {
		if page, err := withBlock(string(text), name, block); err != nil || page != string(text) {
			t.Errorf("the block %s of %s is not that of the kept results (%v); run go run ./lab/bench -page", name, scalePage, err)
		}
	}
	g, err := keptGrowth()
	must.OK(t, err)
	if picture, err := os.ReadFile("lab/results/scale/growth.svg"); err != nil || string(picture) != scale.GrowthPicture(g.curves()) {
		t.Errorf("lab/results/scale/growth.svg is not that of the kept results (%v); run go run ./lab/bench -page", err)
	}
	if _, err := withBlock("text", "units", ""); err == nil || !strings.Contains(err.Error(), "no block <!-- units -->") {
		t.Errorf("a page without the block: %v", err)
	}
}

// TestReclaimIsThatOfTheKeptFailover: a failover that is measured again changes what the formula takes for a reclaim.
func TestReclaimIsThatOfTheKeptFailover(t *testing.T) {
	t.Chdir("../..")
	var kept, derived unitFile
	for _, f := range []*unitFile{&kept, &derived} {
		must.OK(t, readKept(unitsPath, f))
	}
	must.OK(t, derived.derive())
	if kept.Reclaims != derived.Reclaims {
		t.Errorf("%s does not say where Reclaim comes from; run go run ./lab/bench -page", unitsPath)
	}
	for i, u := range kept.Units {
		if want := derived.Units[i].Reclaim; math.Abs(u.Reclaim-want) > 1e-6*want {
			t.Errorf("%s: Reclaim is %v in %s, %v by the kept failover; run go run ./lab/bench -page", u.Server, u.Reclaim, unitsPath, want)
		}
	}
	if err := (&unitFile{}).derive(); err == nil {
		t.Error("a cost is derived without the units of redis")
	}
}
