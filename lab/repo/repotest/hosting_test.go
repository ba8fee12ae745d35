// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const dependabot = ".github/dependabot.yml"

// checkDependabot: every module that requires something is kept up to date, in go.work or
// not, and no other folder is listed. The root module requires nothing.
func checkDependabot(t tree) []complaint {
	var want []string
	for _, p := range t.paths("go.mod") {
		if path.Base(p) == "go.mod" && !inDir(p, "testdata") && slices.Contains(directives(t.lines(p)), "require") {
			want = append(want, "/"+path.Dir(p))
		}
	}
	var cs []complaint
	for i, l := range t.lines(dependabot) {
		dir, ok := strings.CutPrefix(strings.TrimSpace(l), "- /")
		if !ok {
			continue
		}
		n := len(want)
		want = slices.DeleteFunc(want, func(w string) bool { return w == "/"+dir })
		if len(want) == n {
			cs = append(cs, complaint{dependabot, i + 1, "/" + dir + " is not a module that requires something, or is listed twice; remove it"})
		}
	}
	for _, w := range want {
		cs = append(cs, complaint{dependabot, 1, w + " is not listed, so nothing raises its requirements; add it"})
	}
	return cs
}

var (
	usesAction = regexp.MustCompile(`^\s*-?\s*uses:\s*(\S+)`)
	pinned     = regexp.MustCompile(`uses:\s*\S+@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+$`)
	grants     = regexp.MustCompile(`^(\s*)([a-z-]*):?\s*(write|write-all)\b`)
	goImage    = regexp.MustCompile(`(?:golang:|go-version: ")([0-9]+\.[0-9]+)`)
)

// mayWrite are the permissions that jobs of one workflow have: a release writes its draft and the attestation of it.
var mayWrite = map[string][]string{".github/workflows/release.yml": {"contents", "id-token", "attestations"}}

// checkWorkflows: actions are pinned by a commit, because whoever can move a tag of theirs would run as we do, with the
// version for people and Dependabot; a workflow may only read, but for the jobs of a release; and the Go release is that of go.work.
func checkWorkflows(t tree) []complaint {
	var cs []complaint
	release := ""
	for _, l := range t.lines("go.work") {
		if v, ok := strings.CutPrefix(l, "go "); ok {
			release = strings.Join(strings.SplitN(v, ".", 3)[:2], ".")
		}
	}
	for _, p := range t.paths(".yml") {
		if !strings.HasPrefix(p, ".github/workflows/") {
			continue
		}
		if !slices.Contains(t.lines(p), "permissions:") {
			cs = append(cs, complaint{p, 1, "no permissions at the top, so the default of the hosting applies; add contents: read"})
		}
		for i, l := range t.lines(p) {
			if m := usesAction.FindStringSubmatch(l); m != nil && !strings.HasPrefix(m[1], "./") && !pinned.MatchString(l) {
				cs = append(cs, complaint{p, i + 1, m[1] + " can change at any time; pin it by the 40 digits of a commit, with the version: @… # v1.2.3"})
			}
			if m := grants.FindStringSubmatch(l); m != nil && (len(m[1]) < 6 || !slices.Contains(mayWrite[p], m[2])) || strings.Contains(l, "write-all") {
				cs = append(cs, complaint{p, i + 1, "a workflow only reads; remove the permission to write"})
			}
			if m := goImage.FindStringSubmatch(l); m != nil && m[1] != release {
				cs = append(cs, complaint{p, i + 1, "Go " + m[1] + " is not the release of go.work, " + release})
			}
		}
	}
	return cs
}

// checkParts: the jobs of the hosting run every part that .ci/run runs by itself, and no other; a part that .ci/run begins,
// it finishes, or nobody would see it fail.
func checkParts(t tree) (cs []complaint) {
	const workflow = ".github/workflows/ci.yml"
	var parts, jobs []string
	for i, l := range t.lines(".ci/run") {
		if strings.HasPrefix(l, "part ") || strings.HasPrefix(l, "begin ") {
			parts = append(parts, strings.Fields(l)[1])
		}
		if name, ok := strings.CutPrefix(l, "begin "); ok {
			name, _, _ = strings.Cut(name, " ")
			if !slices.Contains(t.lines(".ci/run"), "finish "+name) {
				cs = append(cs, complaint{".ci/run", i + 1, "part " + name + " begins, and nothing finishes it"})
			}
		}
	}
	for _, l := range t.lines(workflow) {
		if names, ok := strings.CutPrefix(l, "          - "); ok {
			jobs = append(jobs, strings.Fields(names)...)
		}
	}
	for _, p := range parts {
		if !slices.Contains(jobs, p) {
			cs = append(cs, complaint{workflow, 1, "no job runs part " + p + " of .ci/run"})
		}
	}
	for _, j := range jobs {
		if !slices.Contains(parts, j) {
			cs = append(cs, complaint{workflow, 1, ".ci/run has no part " + j})
		}
	}
	return cs
}

func TestJobsRunEveryPart(t *testing.T) { checkRepo(t, checkParts) }

func TestJobsRunEveryPartComplains(t *testing.T) {
	wantComplaints(t, checkParts, treeOf(
		".ci/run", "part a a\nbegin b b\npart d d\nfinish b\nbegin a a\n",
		".github/workflows/ci.yml", "        parts:\n          - a c\n",
	), ".ci/run:5: part a begins, and nothing finishes it", ".github/workflows/ci.yml:1: no job runs part b", ".github/workflows/ci.yml:1: no job runs part d", ".github/workflows/ci.yml:1: .ci/run has no part c")
}

func TestDependabot(t *testing.T) { checkRepo(t, checkDependabot) }
func TestWorkflows(t *testing.T)  { checkRepo(t, checkWorkflows) }

func TestDependabotComplains(t *testing.T) {
	files := treeOf(
		"go.work", "go 1.26.0\nuse (\n\t.\n\t./a\n\t./b\n\t./c\n)\n",
		"go.mod", "module example.com/m\n",
		"a/go.mod", "module example.com/m/a\nrequire example.com/x v1.0.0\n",
		"b/go.mod", "module example.com/m/b\nrequire (\n\texample.com/x v1.0.0\n)\n",
		"c/go.mod", "module example.com/m/c\n",
		"d/go.mod", "module example.com/m/d\nrequire example.com/x v1.0.0\n", "d/go.work", "go 1.26.0\nuse .\n",
		"d/testdata/e/go.mod", "module example.com/m/e\nrequire example.com/x v1.0.0\n",
		dependabot, "updates:\n  - package-ecosystem: gomod\n    directories:\n      - /a\n      - /a\n      - /c\n",
	)
	wantComplaints(t, checkDependabot, files,
		dependabot+":5: /a is not a module", dependabot+":6: /c is not a module", dependabot+":1: /b is not listed", dependabot+":1: /d is not listed")
}

func TestWorkflowsComplain(t *testing.T) {
	const dir, digest = ".github/workflows/", "0123456789012345678901234567890123456789"
	wantComplaints(t, checkWorkflows, treeOf(
		"go.work", "go 1.26.0\n",
		dir+"a.yml", "permissions:\n  contents: read\njobs:\n  a:\n    container: golang:1.25-bookworm\n    steps:\n      - uses: actions/checkout@v6\n      - uses: actions/x@main\n"+
			"      - uses: actions/y@"+digest+" # v1.2.3\n      - uses: actions/z@"+digest+"\n      - uses: actions/y@"+digest[1:]+" # v1.2.3\n    uses: ./.github/workflows/b.yml\n",
		dir+"b.yml", "name: b\njobs:\n  b:\n    permissions:\n      contents: write\n",
		dir+"release.yml", "permissions:\n  contents: write\njobs:\n  b:\n    permissions:\n      contents: write\n      packages: write\n    steps:\n      - uses: actions/setup-go@"+
			digest+" # v6.0.0\n        with:\n          go-version: \"1.27\"\n",
	),
		dir+"a.yml:5: Go 1.25 is not the release", dir+"a.yml:7: actions/checkout@v6 can change", dir+"a.yml:8: actions/x@main can change",
		dir+"a.yml:10: actions/z@"+digest+" can change", dir+"a.yml:11: actions/y@"+digest[1:]+" can change",
		dir+"b.yml:1: no permissions", dir+"b.yml:5: a workflow only reads",
		dir+"release.yml:2: a workflow only reads", dir+"release.yml:7: a workflow only reads", dir+"release.yml:11: Go 1.27 is not the release")
}
