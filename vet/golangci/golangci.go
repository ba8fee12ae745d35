// SPDX-License-Identifier: Apache-2.0

// Package golangci makes the analyzers of package vet a module plugin of golangci-lint. It is a module of its own, so
// that those who run fencelockvet do not require golangci-lint's registry.
//
// With .custom-gcl.yml, golangci-lint custom builds a golangci-lint that has it:
//
//	version: v2.14.0
//	plugins:
//	  - module: github.com/fencelock/fencelock/vet/golangci
//	    version: v0.1.0
//
// And .golangci.yml switches it on:
//
//	linters:
//	  enable: [fencelock]
//	  settings:
//	    custom:
//	      fencelock:
//	        type: module
package golangci

import (
	"errors"

	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/fencelock/fencelock/vet"
)

func init() { register.Plugin("fencelock", newPlugin) }

type plugin struct{}

// newPlugin refuses settings: there are none, and a misspelled one would be ignored.
func newPlugin(settings any) (register.LinterPlugin, error) {
	if m, ok := settings.(map[string]any); ok && len(m) > 0 || !ok && settings != nil {
		return nil, errors.New("fencelock has no settings; switch a check off at a line by //fencelock:ignore CHECK REASON")
	}
	return plugin{}, nil
}

// BuildAnalyzers returns the analyzers, each without its related places.
func (plugin) BuildAnalyzers() ([]*analysis.Analyzer, error) {
	list := make([]*analysis.Analyzer, len(vet.All))
	for i, a := range vet.All {
		list[i] = alone(a)
	}
	return list, nil
}

// alone returns an analyzer without the places that relate to its reports: golangci-lint makes each of them an issue of its
// own, which a nolint at the report does not silence. The messages name the lines.
func alone(a *analysis.Analyzer) *analysis.Analyzer {
	b := *a
	b.Run = func(pass *analysis.Pass) (any, error) {
		p := *pass
		p.Report = func(d analysis.Diagnostic) {
			d.Related = nil
			pass.Report(d)
		}
		return a.Run(&p)
	}
	return &b
}

func (plugin) GetLoadMode() string { return register.LoadModeTypesInfo }
