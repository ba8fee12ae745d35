// SPDX-License-Identifier: Apache-2.0

package golangci_test

import (
	"testing"

	"github.com/golangci/plugin-module-register/register"

	"github.com/fencelock/fencelock/vet"
	_ "github.com/fencelock/fencelock/vet/golangci"
)

// TestPlugin: golangci-lint finds the plugin by its name, and gets all analyzers.
func TestPlugin(t *testing.T) {
	make, err := register.GetPlugin("fencelock")
	if err != nil {
		t.Fatal(err)
	}
	for _, none := range []any{nil, map[string]any{}} {
		p, err := make(none)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.BuildAnalyzers()
		if err != nil || len(got) != len(vet.All) || p.GetLoadMode() != register.LoadModeTypesInfo {
			t.Errorf("%d analyzers in mode %q, %v", len(got), p.GetLoadMode(), err)
		}
	}
	for _, some := range []any{map[string]any{"checks": "all"}, "outerctx"} {
		if _, err := make(some); err == nil {
			t.Errorf("settings %v are ignored", some)
		}
	}
}
