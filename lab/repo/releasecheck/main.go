// SPDX-License-Identifier: Apache-2.0

// Command releasecheck fails before a release whose pages show measurements of older code.
//
//	a report ──▶ the commits that it names  │ older, if what it measures differs
//	what is checked out                     │ from what one of them has
//
// It also fails if files are changed and not committed, and if the changelog's section of the version, which the go.mod
// files have, has no date.
//
//	go run ./lab/repo/releasecheck            # before the tags: make release-check
//	go run ./lab/repo/releasecheck -figures   # print the figure, and never fail: between releases reports are older
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/lab/internal/checkout"
)

func main() {
	figures := flag.Bool("figures", false, "print the figure for make figures-docs, and never fail because of it")
	flag.Parse()
	if err := run(*figures); err != nil {
		fmt.Fprintln(os.Stderr, "releasecheck:", err)
		os.Exit(1)
	}
}

func run(figures bool) error {
	top, err := checkout.Top()
	if err != nil {
		return err
	}
	if err := os.Chdir(top); err != nil {
		return err
	}
	files := map[string]bool{} // a page of several runs is one
	for _, r := range reports() {
		why, err := ask(r)
		if err != nil {
			return err
		}
		if why != "" {
			files[r.file] = true
			fmt.Printf("releasecheck: %s: %s\n", r.file, why)
		}
	}
	older := len(files)
	if figures {
		figure.Print("docs-reports-older-than-code", older, figure.Exactly(0))
		return nil
	}
	figure.Print("reports-older-than-code", older, figure.Exactly(0))
	var errs []error
	if older > 0 {
		errs = append(errs, fmt.Errorf("%d reports are older than the code that they measure; measure again on this commit", older))
	}
	if errs = append(errs, uncommitted(), checkChangelog()); errors.Join(errs...) != nil {
		return errors.Join(errs...)
	}
	fmt.Println("ok releasecheck: every report measures this code, the changelog has a date, and all files are committed")
	return nil
}

// ask compares one report with what is checked out.
func ask(r report) (string, error) {
	text, err := os.ReadFile(filepath.FromSlash(r.file))
	if err != nil {
		return "", err
	}
	return older(r, string(text), func(commit string) (string, error) { return checkout.Older(".", commit, r.measures...) })
}

// uncommitted fails if files are changed.
func uncommitted() error {
	out, err := exec.Command("git", "status", "--porcelain").Output()
	if err == nil && len(out) > 0 {
		err = fmt.Errorf("files are not committed:\n%s", out)
	}
	return err
}

// checkChangelog reads the version of the release from a module that requires the root.
func checkChangelog() error {
	gomod, err := os.ReadFile(filepath.Join("cmd", "fencelock", "go.mod"))
	if err != nil {
		return err
	}
	changelog, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	return dated(string(changelog), string(gomod))
}
