// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"go/build"
	"slices"
	"testing"
)

// A build for Windows must end with one line that names the systems, not with the first
// name that happens to be missing.
func TestBuildForWindowsNamesTheSystems(t *testing.T) {
	system := build.Default
	system.GOOS = "windows"
	p, err := system.ImportDir(".", 0)
	if want := []string{"doc.go", "unsupported.go"}; err != nil || !slices.Equal(p.GoFiles, want) {
		t.Errorf("for Windows the package has %q, %v; want %q: other files add other errors", p.GoFiles, err, want)
	}
}
