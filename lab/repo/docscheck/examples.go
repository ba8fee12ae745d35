// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"path"
	"slices"
	"strings"
)

// example is one function whose output is checked.
type example struct {
	file string
	line int
	name string
}

func (e example) String() string { return fmt.Sprintf("%s:%d: %s", e.file, e.line, e.name) }

// findExamples returns the examples of all test files that have an output, in the order of
// their files. The others are run by tests, see repotest.
func findExamples(files map[string]string) ([]example, error) {
	var all []example
	for p, text := range files {
		if !strings.HasSuffix(p, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		lines := map[string]int{}
		for _, d := range parsed.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				lines[fn.Name.Name] = fset.Position(fn.Pos()).Line
			}
		}
		for _, ex := range doc.Examples(parsed) {
			if ex.Output == "" && !ex.EmptyOutput {
				continue
			}
			name := "Example" + ex.Name
			all = append(all, example{p, lines[name], name})
		}
	}
	slices.SortFunc(all, func(a, b example) int { return strings.Compare(a.String(), b.String()) })
	return all, nil
}

// checkExamples runs all examples and sees to it that each of them ran.
func checkExamples(top string, files map[string]string) error {
	all, err := findExamples(files)
	if err != nil {
		return err
	}
	var in []string
	for _, e := range all {
		in = append(in, e.file)
	}
	dirs := packages(in)
	out, more, err := command(top, append([]string{"test", "-count=1", "-json", "-run", "^Example"}, dirs...)...)
	results, failures, rerr := read(out)
	if rerr != nil {
		return errors.Join(rerr, err)
	}
	if bad := missing(all, results); len(bad) > 0 || err != nil {
		return fmt.Errorf("examples that did not run, or print something else:\n%s\n%s", strings.Join(bad, "\n"), failures+more)
	}
	fmt.Printf("ok docs-check: %d examples ran, in %d packages\n", len(all), len(dirs))
	return nil
}

// missing returns the examples that did not pass.
func missing(all []example, results map[string]string) []string {
	var bad []string
	for _, e := range all {
		switch result := results[path.Dir(e.file)+" "+e.name]; result {
		case "pass":
		case "":
			bad = append(bad, e.String()+" was not run")
		default:
			bad = append(bad, e.String()+": "+result)
		}
	}
	return bad
}

// modulePath is what every import path of the repository begins with.
const modulePath = "github.com/fencelock/fencelock"

// read returns the result of each test, by folder and name, and what was printed by
// those that did not pass.
func read(out string) (results map[string]string, failures string, err error) {
	results = map[string]string{}
	printed := map[string]string{}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var e struct{ Action, Package, Test, Output string }
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return results, failures, nil
		} else if err != nil {
			return nil, "", fmt.Errorf("go test printed what is not JSON: %w\n%s", err, out)
		}
		key := strings.TrimPrefix(strings.TrimPrefix(e.Package, modulePath), "/")
		if key == "" {
			key = "."
		}
		key += " " + e.Test
		switch e.Action {
		case "build-output":
			failures += e.Output
		case "output":
			printed[key] += e.Output
		case "pass", "fail", "skip":
			results[key] = e.Action
			if e.Action == "fail" {
				failures += printed[key]
			}
		}
	}
}
