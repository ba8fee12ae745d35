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
	for _, e := range engines {
		for _, scheme := range e.schemes {
			// valkey stands for redis, an s is TLS.
			plain := strings.NewReplacer("valkey", "redis", "rediss", "redis", "valkeys", "redis").Replace(scheme)
			if engineOf(strings.TrimSuffix(plain, "s")) != nil {
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
		if strings.HasPrefix(row, "| `") && ok && !strings.Contains(scheme, "`") && engineOf(scheme) == nil {
			t.Errorf("docs/cli.md has %s, and there is none", scheme)
		}
	}
}
