// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// cage is one defect: in file, the text old becomes the text new, which asks
// caged(name) whether to misbehave.
type cage struct {
	name     string
	catcher  catcher
	sim      string // the checker of the simulator that must catch it too, if any
	file     string // below the repository's root
	old, new string
	also     *edit // a second place, if the defect has two
}

// edit is a change of one place.
type edit struct{ file, old, new string }

// binaries are the test programs with all cages compiled in.
type binaries struct {
	dir  string // where they are
	root string // of the repository
}

// env names the variable that opens a cage.
const env = "FENCELOCK_CAGE"

// caged is the switch that every changed package gets.
const caged = `package %s

import "os"

var cageOpen = os.Getenv("` + env + `")

func caged(name string) bool { return cageOpen == name }
`

// build compiles the test programs with every cage in them, closed.
func build(dir string, cages []cage) (binaries, error) {
	b := binaries{dir: dir}
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return b, fmt.Errorf("finding the module: %w", err)
	}
	b.root = filepath.Dir(strings.TrimSpace(string(out)))
	overlay, err := b.overlay(cages)
	if err != nil {
		return b, err
	}
	for _, pkg := range []string{"memstore", ".", "internal/sim"} {
		cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", b.path(pkg), "./"+pkg)
		cmd.Dir = b.root
		if out, err := cmd.CombinedOutput(); err != nil {
			return b, fmt.Errorf("compiling the cages into %s: %w\n%s", pkg, err, out)
		}
	}
	return b, nil
}

// path is where the test program of a package is.
func (b binaries) path(pkg string) string {
	return filepath.Join(b.dir, strings.NewReplacer("/", "-", ".", "root").Replace(pkg)+".test")
}

// overlay writes the changed files and the map that go build reads.
func (b binaries) overlay(cages []cage) (string, error) {
	texts := map[string]string{}
	var errs []error
	for _, c := range cages {
		if !strings.Contains(c.new, fmt.Sprintf("caged(%q)", c.name)) {
			errs = append(errs, fmt.Errorf("cage %s: its new text does not ask caged(%q)", c.name, c.name))
		}
		errs = append(errs, b.apply(texts, c.name, edit{c.file, c.old, c.new}))
		if c.also != nil {
			errs = append(errs, b.apply(texts, c.name, *c.also))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	return b.writeOverlay(texts)
}

// apply changes one place in the texts read so far.
func (b binaries) apply(texts map[string]string, name string, e edit) error {
	text, ok := texts[e.file]
	if !ok {
		raw, err := os.ReadFile(filepath.Join(b.root, e.file))
		if err != nil {
			return err
		}
		text = string(raw)
	}
	if n := strings.Count(text, e.old); n != 1 {
		return fmt.Errorf("cage %s: its text is %d times in %s, want once; adapt the cage to the code", name, n, e.file)
	}
	texts[e.file] = strings.Replace(text, e.old, e.new, 1)
	return nil
}

func (b binaries) writeOverlay(texts map[string]string) (string, error) {
	replace := map[string]string{}
	put := func(file, text string) error {
		to := filepath.Join(b.dir, fmt.Sprintf("%d.go", len(replace)))
		replace[filepath.Join(b.root, file)] = to
		return os.WriteFile(to, []byte(text), 0o600)
	}
	for file, text := range texts {
		pkg := filepath.Base(filepath.Dir(filepath.Join(b.root, file)))
		if filepath.Dir(file) == "." {
			pkg = "fencelock"
		}
		if err := put(file, text); err != nil {
			return "", err
		}
		if sw := filepath.Join(filepath.Dir(file), "zoo_caged.go"); replace[filepath.Join(b.root, sw)] == "" {
			if err := put(sw, fmt.Sprintf(caged, pkg)); err != nil {
				return "", err
			}
		}
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	to := filepath.Join(b.dir, "overlay.json")
	return to, os.WriteFile(to, raw, 0o600)
}
