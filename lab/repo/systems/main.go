// SPDX-License-Identifier: Apache-2.0

// Command systems type-checks what users import as the compilers for other systems would read it:
//
//	go list -deps ──▶ parse ──▶ go/types, a package after those that it imports
//
// go vet does more, but it compiles every dependency for each system first, which takes minutes of two cores.
// Of dependencies only the declarations are checked. The workflow "systems" vets on those systems.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// target is a system, and what is checked for it.
type target struct {
	system string
	unix   bool // or else without the command (docs/compatibility.md) and the tests, which start servers as only Unix can
}

var targets = []target{{system: "darwin", unix: true}, {system: "windows"}}

const ours = "github.com/fencelock/fencelock"

func main() {
	errs := make([]error, len(targets))
	var all sync.WaitGroup
	for i, t := range targets {
		all.Go(func() { errs[i] = t.check() })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, "systems:", err)
		os.Exit(1)
	}
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string // of what its files write to ImportPath, where the two differ
}

func (t target) check() error {
	packages, err := t.packages()
	if err != nil {
		return err
	}
	args := []string{"list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap"}
	if t.unix {
		args = append(args, "-test")
	}
	out, err := t.goCommand(append(args, packages...)...)
	if err != nil {
		return err
	}
	c := checker{system: t.system, files: token.NewFileSet(), done: map[string]*types.Package{"unsafe": types.Unsafe}}
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		c.check(p)
	}
	if c.bodies == 0 { // a check that checks nothing must not pass
		return fmt.Errorf("%s: nothing was checked", t.system)
	}
	if len(c.errs) == 0 {
		fmt.Printf("ok systems: %s: %d packages, and the declarations of %d others\n", t.system, c.bodies, len(c.done)-c.bodies-1)
	}
	return errors.Join(c.errs...)
}

// packages are those of ours that users import or run; they lead to the internal ones that matter.
func (t target) packages() ([]string, error) {
	modules, err := t.goCommand("list", "-m", "-f", "{{.Dir}}/...")
	if err != nil {
		return nil, err
	}
	patterns := slices.DeleteFunc(strings.Fields(modules), func(p string) bool { return strings.HasSuffix(filepath.ToSlash(p), "/lab/...") })
	out, err := t.goCommand(append([]string{"list"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(strings.Fields(out), func(p string) bool {
		return !t.unix && (strings.Contains(p, "/cmd/") || strings.Contains(p+"/", "/internal/"))
	}), nil
}

func (t target) goCommand(args ...string) (string, error) {
	c := exec.Command("go", args...)
	c.Env = append(os.Environ(), "GOOS="+t.system, "CGO_ENABLED=0")
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: go %s: %w", t.system, args[0], err)
	}
	return string(out), nil
}

// checker has checked packages of one system.
type checker struct {
	system string
	files  *token.FileSet
	done   map[string]*types.Package // by ImportPath
	bodies int                       // packages of which the bodies of functions were checked
	errs   []error
}

func (c *checker) check(p listed) {
	if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") { // a program that go test writes
		return
	}
	whole := strings.HasPrefix(p.ImportPath, ours)
	if whole {
		c.bodies++
	}
	conf := types.Config{
		Importer:         importer{c, p.ImportMap},
		IgnoreFuncBodies: !whole,
		Error:            func(err error) { c.fail(err) },
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		f, err := parser.ParseFile(c.files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			c.fail(err)
			return
		}
		files = append(files, f)
	}
	c.done[p.ImportPath], _ = conf.Check(p.ImportPath, c.files, files, nil) // Error has seen what is returned
}

func (c *checker) fail(err error) {
	c.errs = append(c.errs, fmt.Errorf("%s: %w", c.system, err))
}

// importer finds what one package imports.
type importer struct {
	c  *checker
	as map[string]string
}

func (i importer) Import(path string) (*types.Package, error) {
	if p, ok := i.as[path]; ok {
		path = p
	}
	if p := i.c.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("go list did not print %s before what imports it", path)
}
