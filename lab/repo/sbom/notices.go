// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"
)

// ours is the prefix of the modules whose license is LICENSE of this repository.
const ours = "github.com/fencelock/fencelock"

// notice is what a module wants to be distributed with programs that link it.
type notice struct {
	module  *debug.Module
	spdx    []string // identifiers of its licenses
	texts   []string // its license and notice files
	sources []string // their names
}

// places are the directories with the sources of what is linked.
type places struct{ modules, goroot string }

// linked returns the modules in a program that are not ours, as they were built.
func linked(info *debug.BuildInfo) (all []*debug.Module) {
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		if dep.Path != ours && !strings.HasPrefix(dep.Path, ours+"/") {
			all = append(all, dep)
		}
	}
	return all
}

// notices collects the notices of the standard library and of all modules. A
// module without a license that is known is an error: distributing it may not be
// allowed.
func (p places) notices(info *debug.BuildInfo) ([]notice, error) {
	std, err := read(&debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}, p.goroot)
	if err != nil {
		return nil, err
	}
	all := []notice{std}
	for _, m := range linked(info) {
		n, err := read(m, filepath.Join(p.modules, escape(m.Path)+"@"+escape(m.Version)))
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|patents)([-._].*)?$`)

// read reads the files of one module.
func read(m *debug.Module, dir string) (n notice, err error) {
	n.module = m
	files, err := os.ReadDir(dir)
	if err != nil {
		return n, fmt.Errorf("the sources of %s %s: %w", m.Path, m.Version, err)
	}
	for _, f := range files {
		if f.IsDir() || !licenseFile.MatchString(f.Name()) || strings.HasSuffix(f.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return n, err
		}
		n.sources = append(n.sources, f.Name())
		n.texts = append(n.texts, strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
	}
	n.spdx = identify(strings.Join(n.texts, "\n"))
	if len(n.spdx) == 0 {
		return n, fmt.Errorf("%s %s: no license that is known, in %q", m.Path, m.Version, n.sources)
	}
	return n, nil
}

// identify returns the SPDX identifiers of the licenses in a text, sorted. It
// knows the licenses of what is linked, and their own words.
func identify(text string) (ids []string) {
	text = strings.Join(strings.Fields(text), " ")
	has := func(words string) bool { return strings.Contains(text, words) }
	add := func(found bool, id string) {
		if found {
			ids = append(ids, id)
		}
	}
	bsd := has("Redistribution and use in source and binary forms")
	three := has("may be used to endorse or promote products")
	add(has("Apache License") && has("Version 2.0"), "Apache-2.0")
	add(bsd && !three, "BSD-2-Clause")
	add(bsd && three, "BSD-3-Clause")
	add(has("Permission to use, copy, modify, and/or distribute") || has("Permission to use, copy, modify, and distribute"), "ISC")
	add(has("Permission is hereby granted, free of charge, to any person obtaining"), "MIT")
	add(has("Mozilla Public License Version 2.0") || has("Mozilla Public License, version 2.0"), "MPL-2.0")
	return ids
}

// write returns the file that goes beside the program.
func write(program string, all []notice) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is distributed under the Apache License 2.0, see LICENSE. It contains the software\nlisted here, under the licenses below.\n\n", program)
	for _, n := range all {
		fmt.Fprintf(&b, "%s %s (%s)\n", n.module.Path, n.module.Version, strings.Join(n.spdx, ", "))
	}
	for _, n := range all {
		fmt.Fprintf(&b, "\n%s\n%s %s\n", strings.Repeat("=", 80), n.module.Path, n.module.Version)
		if n.module.Path == "std" {
			b.WriteString("Source: https://go.dev/dl\n")
		} else {
			at := n.module.Path + "@" + n.module.Version
			fmt.Fprintf(&b, "Source: https://pkg.go.dev/%s, or: go mod download %s\n", at, at)
		}
		if slices.Contains(n.spdx, "MPL-2.0") {
			b.WriteString("The source code form of these files is available there under the terms of the Mozilla\nPublic License 2.0. They were not changed.\n")
		}
		for i, text := range n.texts {
			fmt.Fprintf(&b, "\n--- %s\n\n%s\n", n.sources[i], text)
		}
	}
	return b.String()
}

// escape is how the module cache spells a path or version: capitals as ! and the
// small letter.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
