// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/warden"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == warden.Arg {
		os.Exit(warden.Main(os.Args[2:]))
	}
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}
