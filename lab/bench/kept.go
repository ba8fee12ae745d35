// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fencelock/fencelock/lab/bench/internal/report"
)

// origin is where results that are kept in the repository come from.
type origin struct {
	Command string
	Machine report.Machine
}

func thisOrigin() origin {
	o := origin{"go run ./lab/bench " + strings.Join(os.Args[1:], " "), report.ThisMachine()}
	o.Machine.Modules = nil // go.mod has them
	return o
}

// readKept reads results that were written before, if any.
func readKept(file string, into any) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; remove it to begin again", file, err)
	}
	return nil
}

func writeKept(file string, results any) error {
	text, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
