// SPDX-License-Identifier: Apache-2.0

// Command sbom writes the bill of materials of a program built by Go, as CycloneDX
// JSON: the modules that were linked into it, by what the go command recorded in the
// program itself.
//
//	go run ./internal/sbom -o fencelock.cdx.json bin/fencelock
//
// It reads the program and not go.mod, because go.mod also lists what only tests
// need. The same program gives the same bytes: there is no time and no random number
// in it. It does not know licences; those are in the modules.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("o", "", "file to write; default standard output")
	flag.Parse()
	if err := run(flag.Args(), *out); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, out string) error {
	if len(args) != 1 {
		return errors.New("give one program, as in: sbom -o fencelock.cdx.json bin/fencelock")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	program, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	sum := sha256.Sum256(program)
	text, err := json.MarshalIndent(describe(info, filepath.Base(args[0]), hex.EncodeToString(sum[:])), "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if out == "" {
		_, err = os.Stdout.Write(text)
		return err
	}
	return os.WriteFile(out, text, 0o644)
}
