// SPDX-License-Identifier: Apache-2.0

package repotest

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tasks lists the documents that do not begin with a task yet. It only becomes shorter.
const tasks = "internal/repo/repotest/tasks.txt"

// beginsWithTask is how a document begins that serves a reader: with an imperative, or with
// what the page is for.
var beginsWithTask = regexp.MustCompile(`^(` +
	`(Add|Ask|Build|Call|Check|Choose|Compare|Configure|Connect|Copy|Decide|Deploy|Diagnose|Find|Fix|Follow|Get|Go|Handle|Hold|Implement|` +
	`Install|Keep|Learn|Limit|Lock|Look up|Make|Measure|Migrate|Monitor|Move|Open|Operate|Pick|Plan|Prepare|Protect|Publish|Put|Read|Release|` +
	`Replace|Report|Reproduce|Resolve|Respond|Run|See|Set|Spread|Start|Store|Switch|Test|Trace|Try|Understand|Upgrade|Use|Verify|Watch|Write) ` +
	`|(This|These) (page|pages|guide|runbook|runbooks|table|record|document|specification) (shows?|lists?|explains?|compares?|describes?|defines?|helps?|lets?|is for|are for|maps?|covers?|walks?) ` +
	`|[^。]*(本页|本文|这一页|这篇)|[用按查选把从]|如果你)`)

// notForTasks are documents that are read for another reason than to do something.
func notForTasks(p string) bool {
	return strings.HasPrefix(p, "docs/decisions/0") || // history
		strings.HasPrefix(p, "docs/benchmarks/") && p != "docs/benchmarks/README.md" // written by bench
}

// firstParagraph returns the prose between the title of a document and what follows it,
// without pictures, the choice of a language and the facts that a runbook begins with.
func firstParagraph(lines []string) string {
	_, prose := fences(lines)
	var text []string
	for _, l := range prose[min(1, len(prose)):] {
		l = strings.TrimSpace(l)
		switch {
		case strings.HasPrefix(l, "#"):
			return strings.Join(text, " ")
		case l == "" && len(text) > 0:
			return strings.Join(text, " ")
		case l == "", strings.HasPrefix(l, "!["), strings.HasPrefix(l, "[!["), strings.HasPrefix(l, "<!--"),
			strings.Contains(l, "简体中文") && strings.Contains(l, "English"), len(text) == 0 && strings.HasPrefix(l, "Severity:"):
		default:
			text = append(text, l)
		}
	}
	return strings.Join(text, " ")
}

// withoutTask returns the documents that do not begin with what a reader can do with them.
func withoutTask(t tree) []string {
	var ps []string
	for _, p := range pages(t) {
		if !strings.HasPrefix(p, "docs/") || notForTasks(p) {
			continue
		}
		if !beginsWithTask.MatchString(strings.TrimLeft(firstParagraph(t.lines(p)), "*_")) {
			ps = append(ps, p)
		}
	}
	return ps
}

// checkTasks: a document begins with what the reader can do with it, or is one of those
// that tasks.txt still lists.
func checkTasks(t tree) []complaint {
	var cs []complaint
	for _, p := range withoutTask(t) {
		if !slices.Contains(t.lines(tasks), p) {
			cs = append(cs, complaint{p, 1, "begin with what the reader can do with the page: an imperative, or This page shows …"})
		}
	}
	return cs
}

func TestTasks(t *testing.T) {
	checkRepo(t, checkTasks)
	files, err := repo()
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, l := range files.lines(tasks) {
		if strings.HasPrefix(l, "#") || slices.Contains(withoutTask(files), l) {
			kept = append(kept, l)
		}
	}
	if *lowerWords {
		if err := os.WriteFile(root+"/"+tasks, []byte(strings.Join(kept, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTasksComplain(t *testing.T) {
	wantComplaints(t, checkTasks, treeOf(
		tasks, "# left\ndocs/old.md\n",
		"README.md", "# Outside docs\n\nA lock.\n",
		"docs/decisions/0001-a.md", "# A\n\nIt was so.\n",
		"docs/benchmarks/redis/README.md", "# A\n\nWritten by bench.\n",
		"docs/old.md", "# A\n\nA lock is a lock.\n",
		"docs/use.md", "# A\n\nEnglish · [简体中文](use_zh-CN.md)\n\n![x](x.svg)\n\n**Use this page.**.\n",
		"docs/page.md", "# A\n\nSeverity: page.\n\nThis page lists\nall.\n",
		"docs/useful.md", "# A\n\nUseful facts.\n",
		"docs/none.md", "# A\n\n## Use\n\nUse it.\n",
		"docs/zh.md", "# A\n\n本页说明。\n",
	), "docs/none.md:1: begin with what", "docs/useful.md:1: begin with what")
}
