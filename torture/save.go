// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fencelock/fencelock/torture/internal/cell"
	"github.com/fencelock/fencelock/torture/internal/history"
)

// save writes the histories, one file a cell.
func save(dir string, results []cell.Result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, r := range results {
		var b bytes.Buffer
		rec := history.NewRecorder(&b)
		for _, e := range r.Events {
			rec.Add(e)
		}
		name := fmt.Sprintf("%s-%s-%d.jsonl", r.Engine, r.Fault, r.Seed)
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
