// SPDX-License-Identifier: Apache-2.0

// Command releasecheck fails before a release whose pages show measurements of older code.
//
//	a report ──▶ the commits that it names                         │ older, if a change is
//	what it measures ──▶ git log: the last commit that changed it  │ not in a commit it names
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
	"strings"

	"github.com/fencelock/fencelock/internal/figure"
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
	top, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if err := os.Chdir(top); err != nil {
		return err
	}
	older := 0
	for _, r := range reports() {
		why, err := askGit(r)
		if err != nil {
			return err
		}
		if why != "" {
			older++
			fmt.Printf("releasecheck: %s: %s\n", r.file, why)
		}
	}
	if figures {
		figure.Print("docs-reports-older-than-code", older, figure.Exactly(0))
		return nil
	}
	figure.Print("reports-older-than-code", older, figure.Exactly(0))
	var errs []error
	if older > 0 {
		errs = append(errs, fmt.Errorf("%d reports are older than the code that they measure; measure again on this commit", older))
	}
	changes, err := git("status", "--porcelain")
	if err == nil && changes != "" {
		err = fmt.Errorf("files are not committed:\n%s", changes)
	}
	if errs = append(errs, err, checkChangelog()); errors.Join(errs...) != nil {
		return errors.Join(errs...)
	}
	fmt.Println("ok releasecheck: every report measures this code, the changelog has a date, and all files are committed")
	return nil
}

// askGit asks git about one report.
func askGit(r report) (string, error) {
	text, err := os.ReadFile(filepath.FromSlash(r.file))
	if err != nil {
		return "", err
	}
	return older(r, string(text), lastChange, inHistory)
}

// lastChange is the last commit that changed files.
func lastChange(paths []string) (string, error) {
	return git(append([]string{"log", "-1", "--format=%H", "--"}, paths...)...)
}

// inHistory reports whether a commit has another one, or is it. A commit that the repository does not have has none.
func inHistory(ancestor, commit string) (bool, error) {
	err := exec.Command("git", "merge-base", "--is-ancestor", ancestor, commit).Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return false, nil
	}
	return err == nil, err
}

func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
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
