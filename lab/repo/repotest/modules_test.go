// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// directives returns the first words of the lines of a go.mod or go.work,
// with those inside a block counted as the block's word; comments are empty.
func directives(lines []string) []string {
	words := make([]string, len(lines))
	block := ""
	for i, l := range lines {
		l, _, _ = strings.Cut(l, "//")
		fields := strings.Fields(l)
		switch {
		case len(fields) == 0:
		case block != "" && fields[0] == ")":
			block = ""
		case block != "":
			words[i] = block
		case fields[len(fields)-1] == "(":
			block = fields[0]
			words[i] = block
		default:
			words[i] = fields[0]
		}
	}
	return words
}

// modules returns the module paths by folder.
func (t tree) modules() map[string]string {
	mods := map[string]string{}
	for _, p := range t.paths("go.mod") {
		if path.Base(p) != "go.mod" || inDir(p, "testdata") {
			continue
		}
		for _, l := range t.lines(p) {
			if m, ok := strings.CutPrefix(l, "module "); ok {
				mods[path.Dir(p)] = strings.TrimSpace(m)
			}
		}
	}
	return mods
}

// moduleDir returns the folder of the module that a file belongs to.
func moduleDir(mods map[string]string, p string) string {
	for dir := path.Dir(p); ; dir = path.Dir(dir) {
		if _, ok := mods[dir]; ok || dir == "." {
			return dir
		}
	}
}

// apart are the released modules with their own go.work, with the reason.
var apart = map[string]string{
	"adapters/caddylock": "Caddy requires hundreds of modules",
}

// checkModFiles: no replace in a go.mod, no requirement in the root, and every
// module is in go.work, or is unreleased or an exception and has its own go.work. CI names
// the exceptions, because the modules of go.work are all that it finds by itself.
func checkModFiles(t tree) []complaint {
	var cs []complaint
	for _, p := range t.paths("go.mod", "go.work") {
		if inDir(p, "testdata") {
			continue
		}
		for i, word := range directives(t.lines(p)) {
			switch {
			case word == "replace" && path.Base(p) == "go.mod":
				cs = append(cs, complaint{p, i + 1, "replace hides what a user of the module gets; remove it, go.work joins the modules"})
			case word == "require" && p == "go.mod":
				cs = append(cs, complaint{p, i + 1, "the root module requires nothing, ever (docs/decisions/0001); move what needs this into a module of its own"})
			}
		}
	}
	used := usedModules(t.lines("go.work"))
	for _, p := range t.paths("go.mod") {
		dir := path.Dir(p)
		top, _, _ := strings.Cut(dir, "/")
		may := slices.Contains(unreleased, top) || apart[dir] != ""
		if apart[dir] != "" && !strings.Contains(string(t[".ci/run"]), "cd "+dir+" &&") {
			cs = append(cs, complaint{p, 1, "the module is not in go.work and .ci/run does not test it; add it to the part adapters"})
		}
		if may && t[dir+"/go.work"] != nil || inDir(p, "testdata") {
			continue
		}
		if !slices.Contains(used, dir) {
			cs = append(cs, complaint{p, 1, "the module is not in go.work, so nothing tests it; run go work use ./" + dir})
		}
	}
	return cs
}

// usedModules returns the folders that a go.work uses.
func usedModules(lines []string) []string {
	var dirs []string
	for i, word := range directives(lines) {
		fields := strings.Fields(lines[i])
		if word == "use" && fields[len(fields)-1] != "(" {
			dirs = append(dirs, path.Clean(fields[len(fields)-1]))
		}
	}
	return dirs
}

func TestModFiles(t *testing.T) { checkRepo(t, checkModFiles) }

func TestModFilesComplain(t *testing.T) {
	wantComplaints(t, checkModFiles, treeOf(
		"go.mod", "module example.com/m\n\nrequire (\n\texample.com/x v1.0.0\n)\n",
		"go.work", "go 1.25.0\nuse (\n\t.\n\t./s\n)\n",
		"s/go.mod", "module example.com/m/s\n// replace in a comment is fine\nrequire example.com/m v1.0.0\nreplace example.com/m => ../\n",
		"u/go.mod", "module example.com/m/u\n",
		"v/go.mod", "module example.com/m/v\n", "v/go.work", "go 1.25.0\nuse .\n",
		"lab/x/go.mod", "module example.com/m/lab/x\n",
		"lab/w/go.mod", "module example.com/m/lab/w\n", "lab/w/go.work", "go 1.25.0\nuse .\n",
		"adapters/caddylock/go.mod", "module example.com/m/caddylock\n", "adapters/caddylock/go.work", "go 1.25.0\nuse .\n",
		".ci/run", "part lint lint\n",
	),
		"go.mod:3: the root module requires nothing",
		"go.mod:4: the root module requires nothing",
		"s/go.mod:4: replace hides",
		"adapters/caddylock/go.mod:1: the module is not in go.work and .ci/run does not test it",
		"lab/x/go.mod:1: the module is not in go.work",
		"u/go.mod:1: the module is not in go.work",
		"v/go.mod:1: the module is not in go.work",
	)
}
