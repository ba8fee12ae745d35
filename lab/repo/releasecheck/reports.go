// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// report is a file with measurements.
type report struct {
	file string
	// runs finds what has to name a commit each: a page may have tables of several runs.
	runs *regexp.Regexp
	// measures are the paths, as git reads them, whose change makes the report older.
	measures []string
}

var (
	commands    = regexp.MustCompile("(?m)^\\| `(make|go) .*$")
	machines    = regexp.MustCompile(`(?s)"Machine": \{.*?"Go":[^}]*`)
	oneResult   = regexp.MustCompile(`(?s)^.{1,400}`) // the commit is at the beginning
	seeds       = regexp.MustCompile(`(?m)^Seed [0-9]+, .*$`)
	playedOn    = regexp.MustCompile(`(?m)^- (Played on|Cells with .* were played on) .*$`)
	testedCells = regexp.MustCompile(`[0-9]+ passed, [0-9-]+[^|]*`)
	// named is a commit in a run, with what follows it if files had been changed.
	named = regexp.MustCompile(`(?i)(?:\bcommit"?:? "?|[0-9]{4}-[0-9]{2}-[0-9]{2}, )([0-9a-f]{7,40})\b((?:, perhaps)? with uncommitted)?`)
)

// core is what every store is used through.
var core = []string{":(glob)*.go", "driver/*.go", "internal/core/*.go", ":(exclude)*_test.go", ":(exclude)driver/drivertest"}

// of adds folders to core. All of their Go code counts, except tests.
func of(folders ...string) []string {
	paths := slices.Clone(core)
	for _, f := range folders {
		paths = append(paths, f+"/*.go", f+"/*.lua", f+"/*.sql")
	}
	return paths
}

// reports are all files that must be measured on the commit of a release. TestReportsAreListed compares them with the
// folders of results. Pictures are drawn from the results beside them.
func reports() []report {
	all := []report{
		{"lab/results/torture.md", seeds, of("store", "lab/torture")},
		{"lab/results/interop.md", playedOn, of("store", "lab/interop")},
		{"lab/results/evidence.md", commands, of("store")},
		{"lab/results/scale/units.json", machines, of("store", "lab/bench")},
		{"lab/results/scale/growth.json", machines, of("store/redisstore", "lab/bench")},
		{"lab/results/versions.md", testedCells, of("store")},
	}
	for suite, folder := range map[string]string{
		"redis": "redisstore", "quorum": "quorum", "etcd": "etcdstore", "zk": "zkstore", "memcached": "memcachestore", "postgres": "sqlstore", "mariadb": "sqlstore",
	} {
		all = append(all, report{"lab/results/benchmarks/" + suite + "/results.json", machines, of("store/"+folder, "lab/bench")})
	}
	for _, server := range []string{"cluster-grace", "etcd", "mariadb", "memcached", "postgres", "quorum-5", "redis-grace", "sentinel-grace", "zookeeper"} {
		all = append(all, report{"lab/load/results/soak/" + server + ".json", oneResult, of("store", "lab/load")})
	}
	for _, event := range []string{"death", "failover", "hot", "restart", "slow", "step"} {
		all = append(all, report{"lab/load/results/events/" + event + ".json", oneResult, of("store/redisstore", "lab/load")})
	}
	slices.SortFunc(all, func(a, b report) int { return strings.Compare(a.file, b.file) })
	return all
}

// older says why a report is older than the code that it measures, or "". A run that does not name its commit is: nobody can
// tell. So is one with changes that were not committed.
func older(r report, text string, lastChange func(paths []string) (string, error), inHistory func(ancestor, commit string) (bool, error)) (string, error) {
	runs := r.runs.FindAllString(text, -1)
	if len(runs) == 0 {
		return "no run was found in it", nil
	}
	change, err := lastChange(r.measures)
	if err != nil {
		return "", err
	}
	if change == "" {
		return "", fmt.Errorf("%s: no commit changed what it measures; correct its paths in lab/repo/releasecheck", r.file)
	}
	missing := 0
	for _, run := range runs {
		m := named.FindStringSubmatch(run)
		switch {
		case m == nil:
			missing++
			continue
		case m[2] != "":
			return "a run of it is of " + m[1] + " with changes that were not committed", nil
		}
		switch has, err := inHistory(change, m[1]); {
		case err != nil:
			return "", err
		case !has:
			return fmt.Sprintf("a run of it is of %s, and %.12s changed what it measures", m[1], change), nil
		}
	}
	if missing > 0 {
		return fmt.Sprintf("%d of %d runs name no commit", missing, len(runs)), nil
	}
	return "", nil
}

var (
	requiresRoot = regexp.MustCompile(`(?m)^\s*(?:require )?github\.com/fencelock/fencelock (v\S+)$`)
	section      = regexp.MustCompile(`(?m)^## (.*)$`)
)

// dated checks that the first section of the changelog is of the version, with a date.
func dated(changelog, gomod string) error {
	version := requiresRoot.FindStringSubmatch(gomod)
	if version == nil {
		return errors.New("cmd/fencelock/go.mod does not require the root module")
	}
	first := section.FindStringSubmatch(changelog)
	if first == nil || !regexp.MustCompile(`^`+regexp.QuoteMeta(version[1])+`, \d{4}-\d{2}-\d{2}$`).MatchString(first[1]) {
		return fmt.Errorf("the first section of CHANGELOG.md must be %q with the day of the release, such as %q", version[1], "## "+version[1]+", 2026-12-01")
	}
	return nil
}
