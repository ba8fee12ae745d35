// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// serverPrograms are the servers that only internal/servers may start.
var serverPrograms = []string{"redis-server", "valkey-server", "redis-sentinel", "valkey-sentinel", "etcd", "postgres",
	"mariadbd", "mysqld", "memcached", "pgbouncer", "zkServer.sh", "org.apache.zookeeper.server.quorum.QuorumPeerMain"}

// starts are the functions that find or start a program.
var starts = []string{"exec.Command", "exec.CommandContext", "exec.LookPath", "os.StartProcess", "syscall.Exec"}

// checkStarters: one package starts servers. Other packages that do it choose ports, wait
// for the start and end processes their own way, and each of them has to be fixed when one
// of these is flaky.
func checkStarters(t tree) (cs []complaint) {
	for _, s := range starters(t) {
		if s.dir != startsServers {
			cs = append(cs, s.where)
		}
	}
	return cs
}

// startsServers is the package that starts servers.
const startsServers = "internal/servers"

// A starter is a place where a package starts a server.
type starter struct {
	dir   string
	where complaint
}

// starters returns the places where a server is found or started by its name. A program
// whose name is computed is not seen, but for the package that has to.
func starters(t tree) (all []starter) {
	for _, f := range t.goFiles() {
		if f.dir() == startsServers && !f.isTest() && !slices.ContainsFunc(all, func(s starter) bool { return s.dir == f.dir() }) {
			all = append(all, starter{dir: f.dir()})
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !slices.Contains(starts, nameOf(call.Fun)) {
				return true
			}
			if program := programIn(call); program != "" && f.dir() != startsServers {
				all = append(all, starter{f.dir(), f.complain(call.Pos(), "starts %s; use internal/servers, which starts every server", program)})
			}
			return true
		})
	}
	return all
}

// nameOf returns package and name of a function that is called.
func nameOf(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// programIn returns the server that is named in the arguments of a call.
func programIn(call *ast.CallExpr) (program string) {
	for _, arg := range call.Args {
		ast.Inspect(arg, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			if text, _ := strconv.Unquote(lit.Value); slices.Contains(serverPrograms, path.Base(text)) {
				program = path.Base(text)
			}
			return true
		})
	}
	return program
}

// starterPackages returns the packages that start servers, sorted.
func starterPackages(t tree) (dirs []string) {
	for _, s := range starters(t) {
		dirs = append(dirs, s.dir)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func TestStarters(t *testing.T) { checkRepo(t, checkStarters) }

func TestStartersComplains(t *testing.T) {
	go1 := func(body string) string {
		return "package p\n\nimport \"os/exec\"\n\nfunc f() {\n\t" + body + "\n}\n"
	}
	files := treeOf(
		"internal/servers/a.go", go1(`exec.Command("redis-server")`),
		"a/a_test.go", go1(`exec.Command("redis-server", "--port", "1")`),
		"b/b.go", go1(`exec.Command("taskset", append([]string{"-c", "0", "/usr/sbin/mariadbd"}, args...)...)`),
		"c/c_test.go", go1(`if _, err := exec.LookPath("etcd"); err != nil { return }`),
		"d/d.go", go1(`exec.Command("java", "-cp", jar, "org.apache.zookeeper.server.quorum.QuorumPeerMain")`),
		"e/e.go", go1(`exec.Command("etcdctl", "lock"); exec.Command("git"); open("postgres")`),
	)
	wantComplaints(t, checkStarters, files, "a/a_test.go:6: starts redis-server", "b/b.go:6: starts mariadbd", "c/c_test.go:6: starts etcd",
		"d/d.go:6: starts org.apache.zookeeper")
	if got, want := strings.Join(starterPackages(files), " "), "a b c d internal/servers"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
