// SPDX-License-Identifier: Apache-2.0

//go:build man

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"
)

// The manual pages are written when a release is packaged, by a program of its own, so that
// the command does not carry what writes them:
//
//	go run -tags man ./cmd/fencelock FOLDER
func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run -tags man ./cmd/fencelock FOLDER")
		os.Exit(exitUsage)
	}
	root := (&app{}).root()
	root.DisableAutoGenTag = true // the same input gives the same pages
	header := &doc.GenManHeader{Title: "FENCELOCK", Section: "1", Source: "fencelock", Manual: "fencelock"}
	err := os.MkdirAll(os.Args[1], 0o755)
	if err == nil {
		err = doc.GenManTree(root, header, os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "manual pages:", err)
		os.Exit(exitFailed)
	}
}
