// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
)

// bom is the part of CycloneDX 1.6 that is needed here.
type bom struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Purl       string     `json:"purl"`
	Licenses   []license  `json:"licenses,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type license struct {
	License licenseID `json:"license"`
}

type licenseID struct {
	ID string `json:"id"`
}

type hash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// settings of the build that a person who repeats it needs.
var settings = []string{"-trimpath", "-ldflags", "-tags", "CGO_ENABLED", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "vcs.revision", "vcs.modified"}

// describe lists what is linked into a program with that file name and SHA-256. The
// standard library is one of its components, because it has vulnerabilities too.
// licenses are SPDX identifiers by module.
func describe(info *debug.BuildInfo, file, sum string, licenses map[string][]string) bom {
	library := func(m *debug.Module) component { return library(m, licenses[m.Path]) }
	main := library(&info.Main)
	main.Type, main.Hashes = "application", []hash{{"SHA-256", sum}}
	main.Properties = append(main.Properties, property{"file", file}, property{"package", info.Path})
	for _, s := range info.Settings {
		if slices.Contains(settings, s.Key) {
			main.Properties = append(main.Properties, property{"build:" + s.Key, s.Value})
		}
	}
	std := library(&debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")})
	b := bom{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{main}, Components: []component{std}}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		b.Components = append(b.Components, library(dep))
	}
	slices.SortFunc(b.Components, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	// The program does not record who needs whom, so all hang on it.
	on := dependency{Ref: main.Ref}
	for _, c := range b.Components {
		on.DependsOn = append(on.DependsOn, c.Ref)
	}
	b.Dependencies = []dependency{on}
	return b
}

// library describes a module. Its h1 sum is that of go.sum, a hash of the files of
// the module and of no single file, so it is a property and no hash.
func library(m *debug.Module, licenses []string) component {
	purl := "pkg:golang/" + m.Path + "@" + url.QueryEscape(m.Version) // "+incompatible" and "(devel)" are not plain
	c := component{Type: "library", Ref: purl, Name: m.Path, Version: m.Version, Purl: purl}
	if m.Sum != "" {
		c.Properties = []property{{"go.sum", m.Sum}}
	}
	if m.Path == ours || strings.HasPrefix(m.Path, ours+"/") {
		licenses = []string{"Apache-2.0"}
	}
	for _, id := range licenses {
		c.Licenses = append(c.Licenses, license{licenseID{id}})
	}
	return c
}
