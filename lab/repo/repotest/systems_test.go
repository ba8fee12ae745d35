// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// linuxOnly are names of package syscall that other systems lack.
var linuxOnly = map[string]bool{"Pdeathsig": true, "Cloneflags": true, "Mount": true, "Unmount": true, "Gettid": true}

var linuxFile = regexp.MustCompile(`_linux(_test)?\.go$`)

// checkSystems: what only Linux has is in files that only Linux compiles, so that
// the tests of a module compile on macOS too. Compiling everything for another
// system would find more, and takes minutes.
func checkSystems(t tree) []complaint {
	var cs []complaint
	for _, f := range t.goFiles() {
		text, _, _ := strings.Cut(string(t[f.path]), "\npackage ")
		if linuxFile.MatchString(f.path) || strings.Contains(text, "//go:build linux") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			name := ""
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "syscall" {
					name = n.Sel.Name
				}
			case *ast.KeyValueExpr:
				if k, ok := n.Key.(*ast.Ident); ok && (k.Name == "Pdeathsig" || k.Name == "Cloneflags") {
					name = k.Name
				}
			}
			if linuxOnly[name] {
				cs = append(cs, f.complain(n.Pos(), "%s exists on Linux only; put it into a file _linux.go, as internal/servers does", name))
			}
			return true
		})
	}
	return cs
}

func TestOtherSystemsCanCompile(t *testing.T) { checkRepo(t, checkSystems) }

func TestOtherSystemsCanCompileIsRefused(t *testing.T) {
	const header = "// SPDX-License-Identifier: Apache-2.0\n\n"
	const body = "package a\n\nimport \"syscall\"\n\nvar a = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}\n\nvar b = syscall.Mount\n"
	wantComplaints(t, checkSystems, treeOf("a/a_linux.go", header+body, "a/a_linux_test.go", header+body,
		"a/b.go", header+"//go:build linux\n\n"+body, "a/c.go", header+body),
		"a/c.go:7: Pdeathsig exists on Linux only", "a/c.go:9: Mount exists on Linux only")
}
