// SPDX-License-Identifier: Apache-2.0

// Command docscheck checks what the documents show and say, and prints how much of it
// there was:
//
//	repotest ──▶ links resolve, code is copied from files, READMEs agree, tests exist,
//	             commands and programs are checked by a test or say why they are not
//	*.md ──▶ files that code is from ──▶ go vet: they compile
//	*_test.go ──▶ examples ──▶ go test: each of them ran and printed what it says
//
// Package repotest checks texts only, and go test alone does not notice an example
// that is not run. It fails with the file and the line of what is wrong.
//
//	go run ./lab/repo/docscheck
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/fencelock/fencelock/lab/internal/checkout"
)

func main() {
	began := time.Now()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "docs-check:", err)
		os.Exit(1)
	}
	fmt.Printf("ok docs-check: all of it in %.1f s\n", time.Since(began).Seconds())
}

func run() error {
	top, err := checkout.Top()
	if err != nil {
		return err
	}
	files, err := readFiles(top)
	if err != nil {
		return err
	}
	// All three, so that one run shows everything that is wrong.
	return errors.Join(checkRepository(top), checkCode(top, files), checkExamples(top, files))
}

// readFiles returns the documents and the tests that git knows or would know, by path.
func readFiles(top string) (map[string]string, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md", "*_test.go")
	cmd.Dir = top
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	files := map[string]string{}
	for _, p := range strings.Split(strings.Trim(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(top, p))
		if os.IsNotExist(err) || strings.Contains("/"+p, "/testdata/") {
			continue // deleted and not yet staged, or not for readers
		}
		if err != nil {
			return nil, err
		}
		files[p] = string(text)
	}
	return files, nil
}

// command runs the go command at the top of the repository. What it prints about
// itself, such as downloads, is apart.
func command(top string, args ...string) (stdout, stderr string, err error) {
	cmd := exec.Command("go", args...)
	var out, errOut strings.Builder
	cmd.Dir, cmd.Stdout, cmd.Stderr = top, &out, &errOut
	err = cmd.Run()
	return out.String(), errOut.String(), err
}

// checkRepository runs the repository's tests of itself and passes on what they counted.
func checkRepository(top string) error {
	out, more, err := command(top, "test", "-count=1", "-v", "./lab/repo/repotest")
	passed := 0
	for line := range strings.Lines(out) {
		if _, counted, ok := strings.Cut(line, "counted: "); ok && err == nil {
			fmt.Print("ok docs-check: ", counted)
		}
		if strings.HasPrefix(line, "--- PASS") {
			passed++
		}
	}
	if err != nil {
		return fmt.Errorf("repotest complains:\n%s%s", complaints(out), more)
	}
	fmt.Printf("ok docs-check: %d tests of the repository by itself\n", passed)
	return nil
}

// complaints takes the lines out of a test's output that say what is wrong.
func complaints(out string) string {
	var lines []string
	for line := range strings.Lines(out) {
		if quiet := strings.HasPrefix(line, "=== ") || strings.Contains(line, "--- PASS") || strings.Contains(line, "counted: "); !quiet {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
