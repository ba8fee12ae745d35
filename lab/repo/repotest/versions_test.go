// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// requirement is one line of a go.mod or go.work about a module of ours.
type requirement struct {
	line          int
	path, version string
	dir           string // of a replacement
}

// ourLines returns the lines of a directive that are about our modules.
func ourLines(lines []string, directive, ours string) (found []requirement) {
	for i, word := range directives(lines) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(lines[i]), directive+" "))
		if word != directive || len(fields) < 2 || fields[0] != ours && !strings.HasPrefix(fields[0], ours+"/") {
			continue
		}
		found = append(found, requirement{i + 1, fields[0], fields[1], fields[len(fields)-1]})
	}
	return found
}

const pyproject = "clients/python/pyproject.toml"

// checkVersions: our modules require each other at one version, and so does the Python client have it. Each go.work
// replaces that version by the code beside it, and nothing else: without it the go command would look for a release that may not exist.
func checkVersions(t tree) (cs []complaint) {
	const advice = "; run go run ./lab/repo/rehearse -raise VERSION"
	mods := t.modules()
	version := ""
	needed := map[string][]string{} // by folder of the module that requires
	for _, p := range t.paths("go.mod") {
		for _, r := range ourLines(t.lines(p), "require", mods["."]) {
			needed[path.Dir(p)] = append(needed[path.Dir(p)], r.path)
			if version == "" {
				version = r.version
			}
			if r.version != version {
				cs = append(cs, complaint{p, r.line, sprint("%s is required at %s, elsewhere %s", r.path, r.version, version) + advice})
			}
		}
	}
	for i, l := range t.lines(pyproject) {
		if v, ok := strings.CutPrefix(l, "version = "); ok && "v"+strings.Trim(v, `"`) != version {
			cs = append(cs, complaint{pyproject, i + 1, "the version is not " + version + advice})
		}
	}
	for _, p := range t.paths("go.work") {
		cs = append(cs, checkReplaced(t, p, version, mods, needed)...)
	}
	return cs
}

// checkReplaced is checkVersions for one go.work.
func checkReplaced(t tree, p, version string, mods map[string]string, needed map[string][]string) (cs []complaint) {
	var want []string
	used := usedModules(t.lines(p))
	for i, dir := range used {
		used[i] = path.Join(path.Dir(p), dir)
	}
	for _, dir := range used {
		want = append(want, needed[dir]...)
	}
	for i, word := range directives(t.lines(p)) {
		if fields := strings.Fields(t.lines(p)[i]); word != "replace" || fields[len(fields)-1] == "(" {
			continue
		}
		one := "replace " + strings.TrimPrefix(strings.TrimSpace(t.lines(p)[i]), "replace ")
		ours := ourLines([]string{one}, "replace", mods["."])
		if len(ours) == 0 || ours[0].version != version || mods[path.Join(path.Dir(p), ours[0].dir)] != ours[0].path {
			cs = append(cs, complaint{p, i + 1, "only the version " + version + " of a module of ours is replaced, by its folder"})
			continue
		}
		want = slices.DeleteFunc(want, func(w string) bool { return w == ours[0].path })
	}
	slices.Sort(want)
	for _, w := range slices.Compact(want) {
		cs = append(cs, complaint{p, 1, w + " " + version + " is required and not replaced by its folder; run go run ./lab/repo/rehearse -raise " + version})
	}
	return cs
}

func TestVersions(t *testing.T) { checkRepo(t, checkVersions) }

func TestVersionsComplain(t *testing.T) {
	wantComplaints(t, checkVersions, treeOf(
		"go.mod", "module example.com/m\n",
		"go.work", "go 1.26.0\nuse (\n\t.\n\t./a\n\t./b\n)\nreplace example.com/m v0.1.0 => .\nreplace (\n\texample.com/x v1.0.0 => ./x\n\texample.com/m/a v0.1.0 => ./b\n)\n",
		"a/go.mod", "module example.com/m/a\nrequire example.com/m v0.1.0\n",
		"b/go.mod", "module example.com/m/b\nrequire (\n\texample.com/m v0.2.0\n\texample.com/m/a v0.1.0\n\texample.com/mm v1.0.0\n)\n",
		"c/go.mod", "module example.com/m/c\nrequire example.com/m v0.1.0\n", "c/go.work", "go 1.26.0\nuse (\n\t.\n\t..\n)\nreplace example.com/m v0.1.0 => ..\n",
		pyproject, "version = \"0.2.0\"\n",
	),
		"b/go.mod:3: example.com/m is required at v0.2.0, elsewhere v0.1.0",
		pyproject+":1: the version is not v0.1.0",
		"go.work:9: only the version v0.1.0 of a module of ours", "go.work:10: only the version v0.1.0 of a module of ours",
		"go.work:1: example.com/m/a v0.1.0 is required and not replaced")
}
