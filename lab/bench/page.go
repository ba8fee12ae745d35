// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fencelock/fencelock/lab/bench/internal/scale"
)

// scalePage is the page whose tables and pictures are written here.
var scalePage = filepath.Join("lab", "results", "scale.md")

// writePage writes the tables of lab/results/scale.md and draws its picture, from what is kept.
func writePage() error {
	if err := deriveUnits(); err != nil {
		return err
	}
	blocks, err := keptBlocks()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(scalePage)
	if err != nil {
		return err
	}
	page := string(text)
	for name, block := range blocks {
		page, err = withBlock(page, name, block)
		if err != nil {
			return err
		}
	}
	growth, err := keptGrowth()
	if err != nil {
		return err
	}
	for name, content := range map[string]string{
		scalePage: page,
		filepath.Join("lab", "results", "scale", "growth.svg"): scale.GrowthPicture(growth.curves()),
	} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// keptBlocks are the tables.
func keptBlocks() (map[string]string, error) {
	var u unitFile
	if err := readKept(unitsPath, &u); err != nil {
		return nil, err
	}
	g, err := keptGrowth()
	if err != nil {
		return nil, err
	}
	return map[string]string{"units": scale.UnitsTable(u.Units), "growth": scale.GrowthTable(g.curves())}, nil
}

func keptGrowth() (g growthFile, err error) {
	err = readKept(growthPath, &g)
	if err == nil && len(g.Curves) == 0 {
		err = fmt.Errorf("%s has no curves; run go run ./lab/bench -growth", growthPath)
	}
	return g, err
}

// withBlock replaces what is between the two comments of a block.
func withBlock(page, name, block string) (string, error) {
	begin, end := "<!-- "+name+" -->", "<!-- /"+name+" -->"
	before, rest, found := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("%s has no block %s", scalePage, begin)
	}
	return before + begin + "\n" + block + end + after, nil
}
