// SPDX-License-Identifier: Apache-2.0

// Command sbom writes the bill of materials of a program built by Go, as CycloneDX
// JSON: the modules that were linked into it, by what the go command recorded in the
// program itself, and their licenses. With -notices it also writes the license texts
// that must be distributed with the program.
//
//	go run ./lab/repo/sbom -o fencelock.cdx.json -notices THIRD_PARTY_NOTICES.txt bin/fencelock
//
// It reads the program and not go.mod, because go.mod also lists what only tests
// need. The same program gives the same bytes: there is no time and no random number
// in it. The licenses come from the module cache, where the build left the modules; a
// module without a license that is known is an error.
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
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	out := flag.String("o", "", "file to write; default standard output")
	notices := flag.String("notices", "", "file to write the license texts to; default none")
	flag.Parse()
	if err := run(flag.Args(), *out, *notices); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, out, notices string) error {
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
	here, err := find()
	if err != nil {
		return err
	}
	all, err := here.notices(info)
	if err != nil {
		return err
	}
	licenses := map[string][]string{}
	for _, n := range all {
		licenses[n.module.Path] = n.spdx
	}
	sum := sha256.Sum256(program)
	text, err := json.MarshalIndent(describe(info, filepath.Base(args[0]), hex.EncodeToString(sum[:]), licenses), "", "  ")
	if err != nil {
		return err
	}
	if notices != "" {
		if err := os.MkdirAll(filepath.Dir(notices), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(notices, []byte(write(filepath.Base(args[0]), all)), 0o644); err != nil {
			return err
		}
	}
	text = append(text, '\n')
	if out == "" {
		_, err = os.Stdout.Write(text)
		return err
	}
	return os.WriteFile(out, text, 0o644)
}

// find asks the go command where it keeps modules and its own sources.
func find() (places, error) {
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOROOT").Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) != 2 {
		return places{}, fmt.Errorf("go env GOMODCACHE GOROOT: %q, %v", out, err)
	}
	return places{modules: lines[0], goroot: lines[1]}, nil
}
