// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// TestStoresAreDocumented: the page and the help have every scheme that works, and the
// page no others.
func TestStoresAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	must.OK(t, err)
	page, help := string(text), storesHelp()
	for _, e := range storeKinds {
		for _, scheme := range e.schemes {
			// valkey stands for redis, an s is TLS.
			plain := strings.Replace(scheme, "valkey", "redis", 1)
			base, _, _ := strings.Cut(plain, "-")
			if without := strings.TrimSuffix(base, "s") + strings.TrimPrefix(plain, base); storeKindOf(without) == e {
				plain = without
			}
			if !strings.Contains(page, "`"+plain+"://") && !strings.Contains(page, "`"+plain+"`") {
				t.Errorf("%s: no %s in docs/cli.md", scheme, plain)
			}
			if plain == e.schemes[0] && !strings.Contains(help, "  "+plain+"://") {
				t.Errorf("no %s in the help", plain)
			}
		}
	}
	for row := range strings.Lines(page) {
		scheme, _, ok := strings.Cut(strings.TrimPrefix(row, "| `"), "://")
		if strings.HasPrefix(row, "| `") && ok && !strings.Contains(scheme, "`") && storeKindOf(scheme) == nil {
			t.Errorf("docs/cli.md has %s, and there is none", scheme)
		}
	}
}

// TestExamplesOfEvalEndTheScript: a script made from an example must not work without the
// lock when acquire fails.
func TestExamplesOfEvalEndTheScript(t *testing.T) {
	help, err := os.ReadFile("acquire.go")
	must.OK(t, err)
	texts := map[string]string{"acquire --help": string(help)}
	for _, page := range []string{"cli.md", "migrations.md"} {
		text, err := os.ReadFile(filepath.Join("../../docs", page))
		must.OK(t, err)
		texts[page] = strings.ReplaceAll(string(text), `\|`, "|")
	}
	const start = `eval "$(fencelock acquire `
	for where, text := range texts {
		if !strings.Contains(text, start) {
			t.Errorf("%s has no example", where)
		}
		for line := range strings.Lines(text) {
			if strings.Contains(line, start) && !strings.Contains(line, `)" || exit`) {
				t.Errorf("%s: no || exit in: %s", where, line)
			}
		}
	}
}

// shellBlock is a block of commands on a page, fencelockLine a command of ours in one.
var (
	shellBlock    = regexp.MustCompile("(?s)\n *```sh\n(.*?)\n *```")
	fencelockLine = regexp.MustCompile(`(?:^|[;|(] *)(?:bin/)?fencelock ([^#;|)\n]+)`)
)

// checkCommandLine: the command exists, with its flags. What comes after -- is another program's.
func checkCommandLine(t *testing.T, page, line string) {
	t.Helper()
	line, _, _ = strings.Cut(line, " -- ")
	words := strings.Fields(line)
	cmd, _, err := (&app{}).root().Find(words)
	if err != nil || !cmd.HasParent() {
		t.Errorf("%s: fencelock %s: there is no such command: %v", page, line, err)
		return
	}
	for _, w := range words {
		flag, ok := strings.CutPrefix(w, "--")
		if flag, _, _ = strings.Cut(flag, "="); ok && flag != "" && cmd.Flags().Lookup(flag) == nil && cmd.InheritedFlags().Lookup(flag) == nil {
			t.Errorf("%s: fencelock %s: there is no --%s", page, line, flag)
		}
	}
}

// TestDocumentedCommands: the command lines of ours in the blocks of all pages exist, with their flags.
func TestDocumentedCommands(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("../../docs", "*.md"))
	must.OK(t, err)
	chinese, err := filepath.Glob(filepath.Join("../../docs/zh-CN", "*.md"))
	must.OK(t, err)
	seen := 0
	for _, page := range append(pages, chinese...) {
		text, err := os.ReadFile(page)
		must.OK(t, err)
		for _, b := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(b[1]) {
				for _, m := range fencelockLine.FindAllStringSubmatch(strings.TrimSpace(line), -1) {
					seen++
					checkCommandLine(t, page, m[1])
				}
			}
		}
	}
	if seen < 25 {
		t.Errorf("only %d commands were found", seen)
	}
}

// TestRunbookCommands: the commands that an operator copies from the prose of a runbook exist, with their flags.
func TestRunbookCommands(t *testing.T) {
	const page = "../../docs/runbooks.md"
	text, err := os.ReadFile(page)
	must.OK(t, err)
	inline := regexp.MustCompile("`fencelock ([^`…]+)`")
	seen := 0
	for _, m := range inline.FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(m[1], "__") {
			continue // as ps shows it
		}
		seen++
		checkCommandLine(t, page, m[1])
	}
	if seen < 15 {
		t.Errorf("only %d commands were found in the runbooks", seen)
	}
}

// TestRunbookMessages: a message by which an operator finds a runbook is in the source, or is
// one of a server.
func TestRunbookMessages(t *testing.T) {
	index, err := os.ReadFile("../../docs/runbooks.md")
	must.OK(t, err)
	_, table, ok := strings.Cut(string(index), "| Message |")
	if !ok {
		t.Fatal("runbooks.md has no table of messages")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	var source strings.Builder
	err = filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		source.Write(text)
		return err
	})
	must.OK(t, err)
	seen := 0
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) < 4 {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			seen++
			if m[1] != "permission denied" && !strings.Contains(source.String(), m[1]) {
				t.Errorf("docs/runbooks.md has the message %q, which is not in the source", m[1])
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d messages were found", seen)
	}
}
