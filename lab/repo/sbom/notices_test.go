// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// TestEveryLinkedModuleHasANotice: for each system that programs are released for.
func TestEveryLinkedModuleHasANotice(t *testing.T) {
	if _, err := os.Stat("../../../go.work"); err != nil {
		t.Skip("needs the repository, with all its modules")
	}
	here, err := find()
	must.OK(t, err)
	for _, system := range []string{"linux", "darwin", "freebsd"} {
		cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", "../../../cmd/fencelock")
		cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := cmd.Output()
		must.OK(t, err)
		info := &debug.BuildInfo{GoVersion: runtime.Version()}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		slices.Sort(lines)
		for _, l := range slices.Compact(lines) {
			if path, version, ok := strings.Cut(l, " "); ok {
				info.Deps = append(info.Deps, &debug.Module{Path: path, Version: version})
			}
		}
		all, err := here.notices(info)
		must.OK(t, err)
		if len(all) < 30 {
			t.Errorf("%s: only %d modules were found", system, len(all))
		}
		text := write("fencelock", all)
		for _, m := range linked(info) {
			if strings.Count(text, m.Path+" "+m.Version+"\n") < 1 {
				t.Errorf("%s: %s has no notice", system, m.Path)
			}
		}
		if strings.Contains(text, "\n"+ours) {
			t.Errorf("%s: our own modules are listed as foreign", system)
		}
		for _, want := range []string{"github.com/go-sql-driver/mysql v1.", "(MPL-2.0)", "go mod download github.com/go-sql-driver/mysql@v", "source code form of these files is available"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the notices do not have %q", system, want)
			}
		}
	}
}

func TestModuleWithoutALicenseIsAnError(t *testing.T) {
	dir := t.TempDir()
	put := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
	put("go/LICENSE", "Redistribution and use in source and binary forms, ... may be used to endorse or promote products")
	put("mod/e.com/!ann/a@v1.0.0/LICENSE", "Permission is hereby granted, free of charge, to any person obtaining")
	put("mod/e.com/b@v1.0.0/LICENSE", "All rights reserved.")
	put("mod/e.com/c@v1.0.0/c.go", "package c")
	here := places{modules: filepath.Join(dir, "mod"), goroot: filepath.Join(dir, "go")}
	for module, good := range map[string]bool{"e.com/Ann/a": true, "e.com/b": false, "e.com/c": false, "e.com/gone": false, ours + "/store/redisstore": true} {
		info := &debug.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{{Path: "x", Replace: &debug.Module{Path: module, Version: "v1.0.0"}}}}
		if _, err := here.notices(info); (err == nil) != good {
			t.Errorf("%s: got %v", module, err)
		}
	}
}

func TestLicensesAreIdentified(t *testing.T) {
	for text, want := range map[string]string{
		"Apache License\n   Version 2.0, January 2004":                                                             "Apache-2.0",
		"Mozilla Public License Version 2.0":                                                                       "MPL-2.0",
		"Redistribution and use in source\nand binary forms, with or without":                                      "BSD-2-Clause",
		"Redistribution and use in source and binary forms; may be used to endorse or promote products":            "BSD-3-Clause",
		"Permission is hereby granted, free of charge, to any person obtaining a copy; Apache License Version 2.0": "Apache-2.0 MIT",
		"You may look at it.": "",
	} {
		if got := strings.Join(identify(text), " "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
