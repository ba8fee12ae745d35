// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"runtime"
	"testing"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	out := fencelockCLI(t, "", "version").want(0).out.String()
	contains(t, out, "fencelock ", runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH+"\n")
	fencelockCLI(t, "", "version", "more").want(exitUsage)
}
