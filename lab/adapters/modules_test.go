// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestModulesAdded: a program that has the host gets fencelock with an adapter, and no other
// module.
func TestModulesAdded(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./adapters/...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	added := strings.Fields(string(out))
	if len(added) == 0 {
		t.Fatal("nothing is listed")
	}
	slices.Sort(added)
	added = slices.DeleteFunc(slices.Compact(added), func(m string) bool { return m == "github.com/fencelock/fencelock" })
	if len(added) > 0 {
		t.Errorf("importing the adapters adds %v", added)
	}
	counted.Lock()
	defer counted.Unlock()
	counted.modules = float64(len(added))
}
