// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// source returns the files of the console with a suffix, by name.
func source(t *testing.T, suffix string) map[string]string {
	t.Helper()
	files, err := filepath.Glob("console/*" + suffix)
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	texts := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		must.OK(t, err)
		texts[f] = string(text)
	}
	return texts
}

// TestConsoleIsServed: the page and all that it loads are there, with types that a browser
// accepts under nosniff.
func TestConsoleIsServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memstore.New(nil), nil)
	page := source(t, "index.html")["console/index.html"]
	refs := regexp.MustCompile(`(?:src|href)="(/console/[^"]+)"`).FindAllStringSubmatch(page, -1)
	paths := []string{"/"}
	for _, m := range refs {
		paths = append(paths, m[1])
	}
	for _, text := range source(t, ".js") {
		for _, m := range regexp.MustCompile(`from "\./([\w.]+)"`).FindAllStringSubmatch(text, -1) {
			paths = append(paths, "/console/"+m[1])
		}
	}
	types := map[string]string{"": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) {
		resp, err := http.Get(w.web.URL + p)
		must.OK(t, err)
		_ = resp.Body.Close()
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(got, types[filepath.Ext(p)]) {
			t.Errorf("%s: %d, %s", p, resp.StatusCode, got)
		}
		if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: %q", p, csp)
		}
	}
}

// TestConsoleIsSelfContained: the page loads nothing from elsewhere, and nothing in it
// turns a text of the store into markup or code.
func TestConsoleIsSelfContained(t *testing.T) {
	outside := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9.-]+\.[a-z]{2,}|@import|url\((?:[^#]|$)`)
	unsafe := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|DOMParser|srcdoc|\.cookie`)
	for _, suffix := range []string{".js", ".css", ".html", ".svg"} {
		for file, text := range source(t, suffix) {
			text = strings.ReplaceAll(text, "http://www.w3.org/2000/svg", "")
			text = regexp.MustCompile(`url\(#\$\{`).ReplaceAllString(text, "")
			if m := outside.FindString(text); m != "" {
				t.Errorf("%s has %q", file, m)
			}
			if m := unsafe.FindString(text); m != "" {
				t.Errorf("%s has %q; use text nodes", file, m)
			}
			if suffix == ".html" && regexp.MustCompile(`<script>|\son\w+=|\sstyle=`).MatchString(text) {
				t.Errorf("%s has inline code or style, which the policy rejects", file)
			}
		}
	}
}

// TestConsoleHasBothLanguages: English and Chinese have the same texts with the same variables, and
// the page uses no others.
func TestConsoleHasBothLanguages(t *testing.T) {
	words := source(t, "words.js")["console/words.js"]
	_, rest, _ := strings.Cut(words, "en: {")
	en, rest, _ := strings.Cut(rest, "\n  zh: {")
	zh, _, _ := strings.Cut(rest, "\n  },")
	entry := regexp.MustCompile(`(?:^|[\s,])("[\w ]+"|\w+): "((?:[^"\\]|\\.)*)"`)
	read := func(text string) map[string]string {
		all := map[string]string{}
		for _, m := range entry.FindAllStringSubmatch(text, -1) {
			all[strings.Trim(m[1], `"`)] = m[2]
		}
		return all
	}
	english, chinese := read(en), read(zh)
	if len(english) < 100 {
		t.Fatalf("only %d texts", len(english))
	}
	variable := regexp.MustCompile(`\{\w+\}`)
	variables := func(s string) string {
		all := variable.FindAllString(s, -1)
		slices.Sort(all)
		return strings.Join(slices.Compact(all), " ")
	}
	for key, text := range english {
		if chinese[key] == "" {
			t.Errorf("%s has no Chinese text", key)
		} else if variables(text) != variables(chinese[key]) {
			t.Errorf("%s: %s in English, %s in Chinese", key, variables(text), variables(chinese[key]))
		}
	}
	for key := range chinese {
		if english[key] == "" {
			t.Errorf("%s has no English text", key)
		}
	}
	used := regexp.MustCompile(`\bt\("([^"]+)"|data-t(?:-\w+)?="(\w+)"|\b(?:line|row|item)\((?:"[\w ]+", )?"(\w+)"`)
	for _, suffix := range []string{".js", ".html"} {
		for file, text := range source(t, suffix) {
			for _, m := range used.FindAllStringSubmatch(text, -1) {
				if key := m[1] + m[2] + m[3]; english[key] == "" {
					t.Errorf("%s uses %q, which has no text", file, key)
				}
			}
		}
	}
}
