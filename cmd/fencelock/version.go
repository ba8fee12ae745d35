// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the release",
		Long: `Print the release, the version of Go that it was built with, and the system it is for.

A program that was built from a checkout, and not from a release, prints "unreleased".`,
		Example: `  fencelock version`,
		Args:    exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.out, version())
			return err
		},
	}
}

// version is that of the program, as far as it was built with one. The go command
// puts it there when it builds a released module, so no build flag is needed.
func version() string {
	v := "unreleased"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		v = info.Main.Version
	}
	return fmt.Sprintf("fencelock %s, %s, %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
