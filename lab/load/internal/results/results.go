// SPDX-License-Identifier: Apache-2.0

// Package results reads and writes what is kept of long runs: a file of JSON for each.
package results

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Read returns the results in a folder, by their names.
func Read[R any](dir string) (map[string]*R, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	all := map[string]*R{}
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		r := new(R)
		if err := json.Unmarshal(text, r); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		all[strings.TrimSuffix(filepath.Base(p), ".json")] = r
	}
	return all, nil
}

// Write keeps the text of a result in a folder.
func Write(dir, name, text string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".json"), []byte(text+"\n"), 0o644)
}
