// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A place is what the import rules know about a file.
type place struct {
	mods map[string]string // module paths by folder
	mod  string            // folder of the file's module, "." is the root
	dir  string            // folder of the file
	test bool              // a _test.go file
}

// inRoot: any package of the root module.
func (p place) inRoot() bool { return p.mod == "." }

// core: what users of the root module link into their programs.
func (p place) core() bool {
	return p.inRoot() && !p.test && !strings.HasPrefix(p.dir, "internal")
}

// linked: what users of any of our modules link into their programs.
func (p place) linked() bool { return !p.test && p.released() && !inDir(p.dir+"/x", "internal") }

// ours returns the folder of a package of ours, and whether it is one.
func (p place) ours(imp string) (dir string, ok bool) {
	top := p.mods["."]
	if imp == top {
		return ".", true
	}
	return strings.CutPrefix(imp, top+"/")
}

// owner returns the folder of the module that a package of ours belongs to.
func (p place) owner(dir string) string { return moduleDir(p.mods, path.Join(dir, "x")) }

// released: users can get the package.
func (p place) released() bool { return !strings.HasPrefix(p.dir+"/", "lab/") }

// testTools are the internal packages that may cross module lines, into tests: versions that
// do not fit break a test of ours, and no program of users. The lab may import every internal
// package, because nobody gets it (docs/decisions/0001).
var testTools = []string{"internal/servers", "internal/figure", "internal/measure", "internal/must", "internal/storetest"}

// An importRule forbids imports, and says why and what to do.
type importRule struct {
	why     string
	applies func(p place) bool
	forbids func(p place, imp string) bool
}

// testKits are the packages whose users are tests.
var testKits = []string{"driver/drivertest", "fence/fencetest"}

// lowStores are the packages that the root package must be free to use in its
// own tests, and whose readers should need the contract only.
var lowStores = []string{"store/memstore", "store/faultstore", "driver/drivertest"}

var importRules = []importRule{{
	"the root module uses the standard library and itself, tests included (docs/decisions/0001); move this into a module of its own",
	place.inRoot,
	func(p place, imp string) bool {
		dir, ours := p.ours(imp)
		return !isStd(imp) && !(ours && p.owner(dir) == ".")
	},
}, {
	"another module's internal package is public in all but name, because versions mix (docs/decisions/0001); meet at fencelock and driver",
	func(place) bool { return true },
	func(p place, imp string) bool {
		dir, ours := p.ours(imp)
		if !p.released() || slices.Contains(testTools, dir) && !p.linked() {
			return false
		}
		return ours && inDir(dir+"/x", "internal") && p.owner(dir) != p.mod
	},
}, {
	"testing adds flags to a user's program; move this into a test or a test kit",
	func(p place) bool { return p.linked() && !slices.Contains(testKits, p.dir) },
	func(_ place, imp string) bool { return imp == "testing" || strings.HasPrefix(imp, "testing/") },
}, {
	"we log through log/slog only, so that users choose where it goes",
	place.linked,
	func(_ place, imp string) bool { return imp == "log" },
}, {
	"unsafe belongs into a small internal package with a reason",
	place.linked,
	func(_ place, imp string) bool { return imp == "unsafe" || imp == "C" },
}, {
	"use math/rand/v2: seeded, and without a global lock",
	func(place) bool { return true },
	func(_ place, imp string) bool { return imp == "math/rand" },
}, {
	"the root package talks to stores only; a store talks to the network",
	func(p place) bool { return p.core() && p.dir == "." },
	func(_ place, imp string) bool { return imp == "net" || strings.HasPrefix(imp, "net/") },
}, {
	"driver is the bottom: it imports nothing of ours but how enumerations print, so that a store author needs nothing else",
	func(p place) bool { return p.dir == "driver" && !p.test },
	func(p place, imp string) bool {
		dir, ours := p.ours(imp)
		return ours && dir != "internal/enum"
	},
}, {
	"what is below the portable types must not import them; use driver",
	func(p place) bool { return slices.Contains(lowStores, p.dir) && !p.test },
	func(p place, imp string) bool { return imp == p.mods["."] },
}}

// isStd: the first element of an import path outside the standard library has
// a dot in it.
func isStd(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".")
}

// checkImports applies importRules.
func checkImports(t tree) []complaint {
	mods := t.modules()
	var cs []complaint
	for _, f := range t.goFiles() {
		p := place{mods, moduleDir(mods, f.path), f.dir(), f.isTest()}
		for _, spec := range f.ast.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			for _, r := range importRules {
				if r.applies(p) && r.forbids(p, imp) {
					cs = append(cs, f.complain(spec.Pos(), "must not import %q: %s", imp, r.why))
				}
			}
		}
	}
	return cs
}

func TestImports(t *testing.T) { checkRepo(t, checkImports) }

func TestImportsComplain(t *testing.T) {
	const top = "example.com/m"
	mods := []string{"go.mod", "module " + top + "\n", "s/go.mod", "module " + top + "/s\n"}
	for _, tt := range []struct{ path, imp, want string }{
		{"a.go", "context", ""},
		{"a.go", top + "/driver", ""},
		{"a.go", top + "/internal/x", ""},
		{"a.go", "github.com/x/y", "the root module uses"},
		{"a_test.go", "golang.org/x/sync", "the root module uses"},
		{"a.go", top + "/s", "the root module uses"},
		{"s/s.go", "github.com/x/y", ""},
		{"s/s.go", top + "/driver", ""},
		{"s/s.go", top + "/internal/x", "another module's internal"},
		{"s/s.go", top + "/s/internal/x", ""},
		{"s/s.go", top + "/internal/servers", "another module's internal"},
		{"s/s_test.go", top + "/internal/servers", ""},
		{"s/s_test.go", top + "/internal/figure", ""},
		{"s/internal/x/a.go", top + "/internal/servers", ""},
		{"store/memstore/a.go", "testing", "testing adds flags"},
		{"store/memstore/a.go", "testing/synctest", "testing adds flags"},
		{"store/memstore/a_test.go", "testing", ""},
		{"driver/drivertest/a.go", "testing", ""},
		{"lab/mutants/a.go", "testing", ""},
		{"a.go", "log", "we log"},
		{"s/s.go", "log", "we log"},
		{"s/s.go", "testing", "testing adds flags"},
		{"s/s_test.go", "testing", ""},
		{"s/internal/x/a.go", "testing", ""},
		{"a.go", "log/slog", ""},
		{"a.go", "unsafe", "unsafe belongs"},
		{"internal/boot/a.go", "unsafe", ""},
		{"s/s_test.go", "math/rand", "use math/rand/v2"},
		{"a.go", "math/rand/v2", ""},
		{"a.go", "net/http", "the root package talks"},
		{"fence/a.go", "net/http", ""},
		{"driver/a.go", top + "/internal/x", "driver is the bottom"},
		{"driver/a_test.go", top + "/store/memstore", ""},
		{"store/memstore/a.go", top, "what is below"},
		{"store/faultstore/a.go", top + "/driver", ""},
	} {
		files := treeOf(append(mods, tt.path, "package p\nimport \""+tt.imp+"\"\n")...)
		if tt.want == "" {
			wantComplaints(t, checkImports, files)
			continue
		}
		wantComplaints(t, checkImports, files, tt.path+":2: must not import \""+tt.imp+"\": "+tt.want)
	}
}
