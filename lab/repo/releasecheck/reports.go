// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/lab/repo/internal/runs"
)

// report is a file with measurements.
type report struct {
	file string
	// runs finds what has to name a commit each: a page may have tables of several runs.
	runs *regexp.Regexp
	// measures are the folders whose change makes the report older.
	measures []string
}

var (
	machines    = regexp.MustCompile(`(?s)"Machine": \{.*?"Go":[^}]*`)
	oneResult   = regexp.MustCompile(`(?s)^.{1,400}`) // the commit is at the beginning
	playedOn    = regexp.MustCompile(`(?m)^- (Played on|Cells with .* were played on) .*$`)
	testedCells = regexp.MustCompile(`[0-9]+ passed, [0-9-]+[^|]*`)
	tortured    = regexp.MustCompile(`(?m)[0-9]+ passed, [0-9-]+[^|]*\|$`) // the last cell of a row
	// named is a commit in a run, with what follows it if files had been changed.
	named = regexp.MustCompile(`(?i)(?:\bcommit"?:? ?"?|[0-9]{4}-[0-9]{2}-[0-9]{2}, )([0-9a-f]{7,40})\b((?:, perhaps)? with uncommitted)?`)
)

// through are the folders of the stores that are used on a server.
var through = map[string][]string{
	"redis": {"store/redisstore"}, "quorum": {"store/quorum", "store/redisstore"}, "etcd": {"store/etcdstore"}, "zk": {"store/zkstore"},
	"memcached": {"store/memcachestore"}, "postgres": {"store/sqlstore"}, "mariadb": {"store/sqlstore"},
}

// matrices are the runs whose results are in one page, and the flag that tells them apart. Each measures what its run does: the half
// without Redis is not older when a quorum has changed.
var matrices = map[string]string{"torture-redis": "-part redis", "torture-others": "-part others", "torture-lossy": "-lossy", "torture-linger": "-linger"}

// seeds finds the lines of the page that are of a run with the flag.
func seeds(flag string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^Seed [0-9]+, .* ` + flag + ` .*$`)
}

// reports are all files that must be measured on the commit of a release. TestReportsAreListed compares them with the
// folders of results. Pictures are drawn from the results beside them.
func reports() []report {
	all := []report{
		{"lab/results/interop.md", playedOn, []string{"store/redisstore", "store/etcdstore", "store/zkstore", "lab/interop"}},
		{"lab/results/scale/units.json", machines, []string{"store", "lab/bench"}},
		{"lab/results/scale/growth.json", machines, []string{"store/redisstore", "lab/bench"}},
		{"lab/results/versions.md", testedCells, runs.OnServers},
		{"lab/results/versions.md", tortured, []string{runs.Quorum}}, // one of its deployments is a quorum
	}
	for _, suite := range []string{"redis", "quorum", "etcd", "zk", "memcached", "postgres", "mariadb"} {
		all = append(all, report{"lab/results/benchmarks/" + suite + "/results.json", machines, append([]string{"lab/bench"}, through[suite]...)})
	}
	for server, store := range map[string]string{
		"redis-grace": "redis", "sentinel-grace": "redis", "cluster-grace": "redis", "quorum-5": "quorum",
		"etcd": "etcd", "zookeeper": "zk", "postgres": "postgres", "mariadb": "mariadb", "memcached": "memcached",
	} {
		all = append(all, report{"lab/load/results/soak/" + server + ".json", oneResult, append([]string{"lab/load/internal/soak", "lab/load/internal/results"}, through[store]...)})
	}
	for _, r := range runs.All {
		row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(r.Command) + "` .*$")
		all = append(all, report{"lab/results/evidence.md", row, r.Measures})
		if flag, ok := matrices[r.Name]; ok {
			all = append(all, report{"lab/results/torture.md", seeds(flag), r.Measures})
		}
	}
	for _, event := range []string{"death", "failover", "hot", "restart", "slow", "step"} {
		all = append(all, report{"lab/load/results/events/" + event + ".json", oneResult, []string{"store/redisstore", "lab/load/internal/event", "lab/load/internal/results"}})
	}
	slices.SortFunc(all, func(a, b report) int { return strings.Compare(a.file, b.file) })
	return all
}

// older says why a report is older than the code that it measures, or "". A run that does not name its commit is: nobody can
// tell. So is one with changes that were not committed. changed says it of one commit.
func older(r report, text string, changed func(commit string) (string, error)) (string, error) {
	runs := r.runs.FindAllString(text, -1)
	if len(runs) == 0 {
		return "no run was found in it", nil
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
		if why, err := changed(m[1]); err != nil || why != "" {
			return "a run of it " + why, err
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
