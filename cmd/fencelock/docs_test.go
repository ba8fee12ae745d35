// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPromisesHaveTests: a test that the page names for a promise is where it says.
func TestPromisesHaveTests(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile("\\[`(Test\\w+)`\\]\\(([^)]+)\\)").FindAllStringSubmatch(string(text), -1)
	if len(links) < 15 {
		t.Errorf("only %d tests are named", len(links))
	}
	for _, link := range links {
		source, err := os.ReadFile(filepath.Join("../../docs", link[2]))
		if err != nil || !strings.Contains(string(source), "\nfunc "+link[1]+"(") {
			t.Errorf("%s is not in %s: %v", link[1], link[2], err)
		}
	}
}

// TestStoresAreDocumented: the page and the help have every scheme that works, and the
// page no others.
func TestStoresAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	page, help := string(text), storesHelp()
	for _, e := range storeKinds {
		for _, scheme := range e.schemes {
			// valkey stands for redis, an s is TLS.
			plain := strings.NewReplacer("valkey", "redis", "rediss", "redis", "valkeys", "redis").Replace(scheme)
			if storeKindOf(strings.TrimSuffix(plain, "s")) != nil {
				plain = strings.TrimSuffix(plain, "s")
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
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"acquire --help": string(help)}
	for _, page := range []string{"cli.md", "migrations/flock.md"} {
		text, err := os.ReadFile(filepath.Join("../../docs", page))
		if err != nil {
			t.Fatal(err)
		}
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
