// SPDX-License-Identifier: Apache-2.0

//go:build !man

package main

import (
	"os"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/supervisor"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == supervisor.Arg {
		os.Exit(supervisor.Main(os.Args[2:]))
	}
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}
