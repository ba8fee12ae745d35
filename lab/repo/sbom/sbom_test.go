// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

func TestDescribe(t *testing.T) {
	b := describe(&debug.BuildInfo{
		GoVersion: "go1.26.8",
		Path:      "e.com/m/cmd/m",
		Main:      debug.Module{Path: "e.com/m", Version: "v1.2.3"},
		Deps: []*debug.Module{
			{Path: "z.com/z", Version: "v1.0.0+incompatible", Sum: "h1:abc="},
			{Path: "a.com/a", Version: "v0.1.0", Replace: &debug.Module{Path: "b.com/b", Version: "v0.2.0"}},
		},
		Settings: []debug.BuildSetting{{Key: "-trimpath", Value: "true"}, {Key: "-compiler", Value: "gc"}},
	}, "m", "00ff", map[string][]string{"z.com/z": {"MIT"}})
	var refs []string
	for _, c := range b.Components {
		refs = append(refs, c.Purl)
	}
	if got, want := strings.Join(refs, " "), "pkg:golang/b.com/b@v0.2.0 pkg:golang/std@1.26.8 pkg:golang/z.com/z@v1.0.0%2Bincompatible"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	text, err := json.Marshal(b)
	must.OK(t, err)
	for _, part := range []string{
		`"bomFormat":"CycloneDX"`, `"type":"application","bom-ref":"pkg:golang/e.com/m@v1.2.3"`, `{"alg":"SHA-256","content":"00ff"}`,
		`{"name":"go.sum","value":"h1:abc="}`, `{"name":"build:-trimpath","value":"true"}`, `"dependsOn":["pkg:golang/b.com/b@v0.2.0",`,
		`"licenses":[{"license":{"id":"MIT"}}]`, `"version":"v1.0.0+incompatible"`,
	} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s is missing in %s", part, text)
		}
	}
	if strings.Contains(string(text), "-compiler") {
		t.Error("a setting that is not needed is in it")
	}
}

// TestItself: this test is a program built by Go, too.
func TestItself(t *testing.T) {
	self, err := os.Executable()
	must.OK(t, err)
	if _, err := buildinfo.ReadFile(self); err != nil {
		t.Skipf("the test has no build information: %v", err)
	}
	out := filepath.Join(t.TempDir(), "bom.json")
	must.OK(t, run([]string{self}, out, filepath.Join(t.TempDir(), "notices", "file.txt")))
	text, err := os.ReadFile(out)
	must.OK(t, err)
	var b bom
	if err := json.Unmarshal(text, &b); err != nil || len(b.Components) == 0 {
		t.Errorf("%v: %s", err, text)
	}
	if err := run([]string{out}, "", ""); err == nil {
		t.Error("a file that is no program was described")
	}
	if err := run(nil, "", ""); err == nil {
		t.Error("no program was described")
	}
}
