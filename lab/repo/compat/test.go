// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
)

// test runs a suite on a version, with its output in a file.
func (v version) test(s suite, log string) (counts, error) {
	args := v.command(s)
	if args == nil {
		return counts{}, nil
	}
	file, err := os.Create(log)
	if err != nil {
		return counts{}, err
	}
	defer file.Close()
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), v.env(s)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return counts{}, err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return counts{}, err
	}
	text := watched(io.TeeReader(out, file))
	err = cmd.Wait()
	c := count(text, v.pattern(s))
	if s == torture {
		c = cells(text)
	}
	if err != nil && c.failed == 0 { // it did not compile, or ended in the middle
		return c, err
	}
	return c, nil
}

// command returns the arguments of the go command, nil if there is nothing to run.
func (v version) command(s suite) []string {
	switch pattern := v.pattern(s); {
	case pattern != "":
		return []string{"test", "-count=1", "-v", "-timeout=60m", "-run", pattern, v.pkg}
	case s == torture && v.deployments != "":
		return []string{"run", "./lab/torture", "-smoke", "-parallel=2", "-budget=30m", "-server", v.deployments}
	}
	return nil
}

// pattern chooses the tests of a suite, empty if go test does not run it.
func (v version) pattern(s suite) string {
	return map[suite]string{conformance: v.conformance, failover: v.failover}[s]
}

// env are the variables that a suite needs.
func (v version) env(s suite) []string {
	if v.program == "" && !(s == torture && v.tortureAs != "") {
		return nil
	}
	program := v.program
	if s == torture && v.tortureAs != "" {
		if program == "" {
			program, _ = exec.LookPath(strings.ToLower(v.name) + "-server")
		}
		return []string{v.tortureAs + "=" + program}
	}
	return []string{v.variable + "=" + program}
}

// watched reads all that a run prints, and prints now and then how far it is.
func watched(r io.Reader) string {
	var text strings.Builder
	started, next := 0, time.Now().Add(30*time.Second)
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		text.WriteString(line)
		if begun.MatchString(line) {
			started++
		}
		if strings.Contains(line, "--- FAIL") {
			fmt.Print("compat: ", strings.TrimLeft(line, " "))
		}
		if time.Now().After(next) {
			fmt.Printf("compat:   %d tests or cells\n", started)
			next = time.Now().Add(30 * time.Second)
		}
		if errors.Is(err, io.EOF) || err != nil {
			return text.String()
		}
	}
}

// counts are what came of a suite.
type counts struct{ passed, failed int }

// begun is a line about a test that runs, or about a cell of the torture.
var begun = regexp.MustCompile(`^(=== RUN| *\d+/\d+ )`)

// result is a line about a test that has ended.
var result = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+)`)

// count counts the tests of go test -v that have no subtests. A test above the depth of the
// pattern that has none has run nothing: the pattern chose none of its subtests, and go test
// calls that passed.
func count(text, pattern string) (c counts) {
	parents, ended := map[string]bool{}, result.FindAllStringSubmatch(text, -1)
	for _, m := range ended {
		for name := m[2]; ; {
			i := strings.LastIndex(name, "/")
			if i < 0 {
				break
			}
			name = name[:i]
			parents[name] = true
		}
	}
	for _, m := range ended {
		switch {
		case parents[m[2]]:
		case m[1] == "PASS" && strings.Count(m[2], "/") >= strings.Count(pattern, "/"):
			c.passed++
		case m[1] == "FAIL":
			c.failed++
		}
	}
	return c
}

// cells counts the cells of a run of the torture.
func cells(text string) (c counts) {
	for _, f := range figure.Find(text) {
		switch f.Name {
		case "torture-cells-failed":
			c.failed = int(f.Value)
		case "torture-cells-run":
			c.passed += int(f.Value)
		}
	}
	c.passed -= c.failed
	return c
}

// text is the cell for what was counted, on a day and at a commit.
func (c counts) text(at time.Time, commit string) string {
	when := at.UTC().Format(time.DateOnly) + ", " + commit
	switch {
	case c == counts{}:
		return notRun
	case c.failed > 0:
		return fmt.Sprintf("**%d failed**, %d passed, %s", c.failed, c.passed, when)
	}
	return fmt.Sprintf("%d passed, %s", c.passed, when)
}

// head returns the commit that is tested, and whether the files differ from it. The page
// itself, which a run changes, does not count.
func head(page string) (string, error) {
	commit, err := exec.Command("git", "rev-parse", "--short=7", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("git rev-parse: %w", err)
	}
	changed, err := exec.Command("git", "status", "--porcelain", "--", ".", ":(exclude)"+page).Output()
	if err != nil {
		return "", fmt.Errorf("git status: %w", err)
	}
	name := strings.TrimSpace(string(commit))
	if len(changed) > 0 {
		name += " and changes"
	}
	return name, nil
}
