// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/fencelock/fencelock/lab/torture/internal/cell"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
	"github.com/fencelock/fencelock/lab/torture/internal/report"
)

// save writes the report, and the histories, one file a cell.
func save(dir string, results []cell.Result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, r := range results {
		if len(r.Events) == 0 { // it does not apply, or did not begin
			continue
		}
		var b bytes.Buffer
		rec := history.NewRecorder(&b)
		for _, e := range r.Events {
			rec.Add(e)
		}
		if err := os.WriteFile(filepath.Join(dir, r.ID()+".jsonl"), b.Bytes(), 0o644); err != nil {
			return err
		}
		for p, page := range r.Pictures {
			if err := os.WriteFile(filepath.Join(dir, r.Picture(p)), page, 0o644); err != nil {
				return err
			}
		}
	}
	f, err := os.Create(filepath.Join(dir, "index.html"))
	if err != nil {
		return err
	}
	return errors.Join(report.HTML(f, results, time.Now()), f.Close())
}
