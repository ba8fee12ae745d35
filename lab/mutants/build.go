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

// mutant is one mutant.
type mutant struct {
	name    string
	why     string  // what it breaks; of an equivalent one, why nothing that is promised changes with it
	catcher catcher // none: it is equivalent, compiled only so that its text stays true
	sim     string  // the checker of the simulator that must catch it too, if any
	edits   []edit
}

func (c mutant) equivalent() bool { return c.catcher == catcher{} }

// edit changes one place, in a file below the repository's root: the text old becomes the text new. It must be
// inside one function, see split, or in a Lua script.
type edit struct{ file, old, new string }

// binaries are the test programs with all mutants compiled in.
type binaries struct {
	dir  string // where they are
	root string // of the repository
}

// packages are those whose tests may kill a mutant.
var packages = []string{".", "internal/core", "store/memstore", "store/shard", "store/both", "store/faultstore", "internal/clock", "internal/timing", "lab/sim",
	"store/quorum", "store/quorum/internal/vote", "store/quorum/internal/model", "store/redisstore", "store/redisstore/internal/native",
	"store/redisstore/internal/foreign", "store/redisstore/redissonstore", "store/redisstore/setnxstore",
	"store/zkstore/internal/zktree", "store/zkstore/curatorstore", "store/sqlstore", "store/sqlstore/internal/lockrow",
	"cmd/fencelock/internal/server/leases", "store/etcdstore", "store/etcdstore/concurrencystore",
	"adapters/internal/held", "adapters/consullock", "fence/httpfence", "fence/sqlfence", "fence/pgxfence", "fence/gormfence", "fence/grpcfence", "fence/s3fence", "adapters/httplock", "lab/e2e", "vet"}

// env names the variable that opens a mutant.
const env = "FENCELOCK_MUTANT"

// mutated is the switch that every changed package gets.
const mutated = `package %s

import "os"

var mutantOn = os.Getenv("` + env + `")

func mutated(name string) bool { return mutantOn == name }
`

// build compiles the test programs with every mutant in them, closed.
func build(dir string, mutants []mutant) (binaries, error) {
	b := binaries{dir: dir}
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return b, fmt.Errorf("finding the module: %w", err)
	}
	b.root = filepath.Dir(strings.TrimSpace(string(out)))
	overlay, err := b.overlay(mutants)
	if err != nil {
		return b, err
	}
	for _, pkg := range packages {
		cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", b.path(pkg), "./"+pkg)
		cmd.Dir = b.root
		if out, err := cmd.CombinedOutput(); err != nil {
			return b, fmt.Errorf("compiling the mutants into %s: %w\n%s", pkg, err, out)
		}
	}
	return b, nil
}

// path is where the test program of a package is.
func (b binaries) path(pkg string) string {
	return filepath.Join(b.dir, strings.NewReplacer("/", "-", ".", "root").Replace(pkg)+".test")
}

// overlay writes the changed files and the map that go build reads.
func (b binaries) overlay(mutants []mutant) (string, error) {
	edits := map[string][]namedEdit{}
	var errs []error
	for _, c := range mutants {
		for _, e := range c.edits {
			if strings.HasSuffix(e.file, ".lua") {
				var err error
				e, err = b.ofScript(c.name, e)
				errs = append(errs, err)
			}
			edits[e.file] = append(edits[e.file], namedEdit{c.name, e.old, e.new})
		}
	}
	texts := map[string]string{}
	for file, list := range edits {
		raw, err := os.ReadFile(filepath.Join(b.root, file))
		if err != nil {
			return "", err
		}
		texts[file], err = split(file, string(raw), list)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	return b.writeOverlay(texts)
}

// ofScript makes an edit of a Lua script one of the function that reads the sources, where the
// environment can switch it on. Package native replaces names in them, so there it is where they are read; package foreign has none.
func (b binaries) ofScript(name string, e edit) (edit, error) {
	file, before, text := "store/redisstore/internal/native/script.go", "return ", "string(text)"
	if strings.HasPrefix(e.file, "store/redisstore/internal/foreign/") {
		file, before, text = "store/redisstore/internal/rediscmd/script.go", "text := ", `head + "local RUN_ID = '" + runID + "'\n" + body`
	}
	raw, err := os.ReadFile(filepath.Join(b.root, e.file))
	if n := strings.Count(string(raw), e.old); err == nil && n != 1 {
		err = fmt.Errorf("mutant %s: its text is %d times in %s, want once; adapt it to the script", name, n, e.file)
	}
	changed := fmt.Sprintf("strings.Replace(%s, %q, %q, 1)", text, e.old, e.new)
	return edit{file, before + text, before + changed}, err
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
		if sw := filepath.Join(filepath.Dir(file), "mutants_switch.go"); replace[filepath.Join(b.root, sw)] == "" {
			if err := put(sw, fmt.Sprintf(mutated, pkg)); err != nil {
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
