// SPDX-License-Identifier: Apache-2.0

package vet_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
)

// modules are the folders whose packages, and whose dependencies, are searched: the workspace, and the modules with their own.
var modules = []string{"../..", "../adapters", "../caddy", "../../adapters/caddylock"}

// ours begins the import path of every package of this repository.
const ours = "github.com/fencelock/fencelock"

// A pkg is one that go list names.
type pkg struct {
	ImportPath, Dir, ForTest string
	Standard                 bool
	GoFiles, TestGoFiles     []string
	XTestGoFiles, Imports    []string
}

// list returns packages with their dependencies.
func list(t *testing.T, dir string, patterns ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-deps", "-e", "-json=ImportPath,Dir,ForTest,Standard,GoFiles,TestGoFiles,XTestGoFiles,Imports"}, patterns...)...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list in %s: %v", dir, err)
	}
	var pkgs []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); err == io.EOF {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// everything returns patterns for all packages of the module or workspace of a folder.
func everything(t *testing.T, dir string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}/...")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// lines counts the lines of a package that people wrote.
func (p pkg) lines(t *testing.T, files []string) int {
	t.Helper()
	n := 0
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(p.Dir, f))
		if err != nil {
			continue // made by the build
		}
		if !bytes.Contains(text[:min(len(text), 2000)], []byte("// Code generated ")) {
			n += bytes.Count(text, []byte("\n"))
		}
	}
	return n
}

func needFigures(t *testing.T) {
	t.Helper()
	if !*figures {
		t.Skip("run make figures-vet")
	}
}

// TestNoFalseAlarms searches this repository as its users would, and the code of others with types of the same shape in
// the place of leases. A report about others is a false alarm unless testdata/judged.txt, which a person wrote who read the
// code, says that it is right.
func TestNoFalseAlarms(t *testing.T) {
	needFigures(t)
	own, ownLines := searchOwn(t)
	for _, r := range own {
		t.Errorf("in this repository: %s", r)
	}
	others, lines, shapes := searchOthers(t)
	judged := judgments(t)
	alarms := len(own)
	for _, r := range others {
		if !slices.Contains(judged, key(r)) {
			alarms++
			t.Errorf("not judged, or wrong: %s\n\tif it is right, add to testdata/judged.txt: %s", r, key(r))
		}
	}
	t.Logf("%d lines of this repository with the locks of fencelock; %d lines of others, with %d reports that are right; what there was to decide: %v",
		ownLines, lines, len(others)+len(own)-alarms, shapes)
	figure.Print("vet-lines-searched", lines, figure.AtLeast(200_000))
	figure.Print("vet-shapes-searched", shapes["acquisition"]+shapes["function"]+shapes["client"], figure.AtLeast(500))
	figure.Print("vet-false-alarms", alarms, figure.Exactly(0))
}

// key is how testdata/judged.txt names a report: without the folder of the module cache.
func key(r report) string {
	_, file, ok := strings.Cut(r.file, "/pkg/mod/")
	if !ok {
		file = r.file
	}
	return file + ":" + r.line + " " + r.check
}

// judgments are the first two words of the lines in testdata/judged.txt; the rest is why.
func judgments(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/judged.txt")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for l := range strings.Lines(string(text)) {
		if words := strings.Fields(l); len(words) > 2 && !strings.HasPrefix(l, "#") {
			keys = append(keys, words[0]+" "+words[1])
		}
	}
	return keys
}

func searchOwn(t *testing.T) (reports []report, lines int) {
	t.Helper()
	bin := build(t, command, "")
	seen := map[string]bool{}
	for _, dir := range modules {
		reports = append(reports, run(t, bin, dir, everything(t, dir)...)...)
		for _, p := range list(t, dir, everything(t, dir)...) {
			if strings.HasPrefix(p.ImportPath, ours) && !seen[p.Dir] {
				seen[p.Dir] = true
				lines += p.lines(t, slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles))
			}
		}
	}
	return reports, lines
}

// searchOthers leaves out tests, which need more than is there, and packages that use neither context nor sync.
func searchOthers(t *testing.T) (reports []report, lines int, shapes map[string]int) {
	t.Helper()
	bin := build(t, alike, "")
	shapes = map[string]int{}
	seen := map[string]bool{} // folders, which have the version
	for _, dir := range modules {
		var paths []string
		for _, p := range list(t, dir, append([]string{"-test"}, everything(t, dir)...)...) {
			uses := slices.Contains(p.Imports, "context") || slices.Contains(p.Imports, "sync")
			if p.Standard || p.ForTest != "" || seen[p.Dir] || strings.HasPrefix(p.ImportPath, ours) || strings.HasSuffix(p.ImportPath, ".test") || !uses {
				continue
			}
			seen[p.Dir] = true
			if n := p.lines(t, p.GoFiles); n > 0 {
				lines += n
				paths = append(paths, p.ImportPath)
			}
		}
		if len(paths) == 0 {
			continue
		}
		for _, r := range run(t, bin, dir, append([]string{"-test=false"}, paths...)...) {
			if r.check == "shapes" {
				shapes[r.message]++
			} else {
				reports = append(reports, r)
			}
		}
	}
	return reports, lines, shapes
}

// TestTimeOfARun compares the processor time of go vet with the analyzers and without: both in their first run over the
// workspace, with everything compiled. The first round compiles, and counts for neither; of the other two the faster one counts.
func TestTimeOfARun(t *testing.T) {
	needFigures(t)
	all := everything(t, "../..")
	cost := func(flag string) time.Duration {
		cmd := exec.Command("go", append([]string{"vet", flag}, all...)...)
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	var mine, base []time.Duration
	for range 3 {
		// Another binary, and another flag, so that go vet has no results yet.
		stamp := fmt.Sprint("stamp", time.Now().UnixNano())
		mine = append(mine, cost("-vettool="+build(t, command, stamp)))
		base = append(base, cost("-printf.funcs="+stamp))
	}
	t.Logf("go vet %v, with the analyzers of fencelock instead %v", base, mine)
	ratio := slices.Min(mine[1:]).Seconds() / slices.Min(base[1:]).Seconds()
	figure.Print("vet-time-vs-go-vet", ratio, figure.AtMost(2))
	if ratio > 2 {
		t.Errorf("%v times the time of go vet", ratio)
	}
}
