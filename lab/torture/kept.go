// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/torture/internal/cell"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
	"github.com/fencelock/fencelock/lab/torture/internal/report"
)

// kept prints the figures of the second matrix as it is kept in a document.
func kept(args []string) error {
	if len(args) != 1 {
		return errors.New("want the document with the matrix: torture kept FILE")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	ran, failed, err := tallied(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w; write it with make torture-lossy", args[0], err)
	}
	figure.Print("torture-lossy-cells", ran, figure.AtLeast(80)) // as many as make torture-lossy asks for
	figure.Print("torture-lossy-failed", failed, figure.Exactly(0))
	if failed > 0 {
		return fmt.Errorf("%d cells failed", failed)
	}
	return nil
}

var tally = regexp.MustCompile(`(?s)<!-- lossy -->.*?: (\d+) cells run, of which .*? and (\d+) FAILED\..*?<!-- /lossy -->`)

// tallied reads how many cells of the kept matrix ran and how many of them failed.
func tallied(text string) (ran, failed int, err error) {
	m := tally.FindStringSubmatch(text)
	if m == nil {
		return 0, 0, errors.New("it has no result of the second matrix")
	}
	ran, err = strconv.Atoi(m[1])
	failed, err2 := strconv.Atoi(m[2])
	return ran, failed, errors.Join(err, err2)
}

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

// rewrite puts a text between the two marks of a name in a file, so that what a
// document says is what a run found. An empty path does nothing.
func rewrite(path, name, text string) error {
	if path == "" {
		return nil
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	head, rest, ok := strings.Cut(string(old), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no place for %q: it needs a line %q and one %q", path, name, strings.TrimSpace(begin), end)
	}
	return os.WriteFile(path, []byte(head+begin+"\n"+strings.TrimSpace(text)+"\n\n"+end+tail), 0o644)
}
