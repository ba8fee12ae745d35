// SPDX-License-Identifier: Apache-2.0

// Command rehearse publishes the modules of the repository to a proxy in a
// temporary folder and builds each as its users get it, without go.work:
//
//	git ls-files ──▶ copies ──▶ require ours, tidy, build, vet ──▶ zip ──▶ proxy
//	                               ▲  in the order of their imports          │
//	                               └─────────────────────────────────────────┘
//	a program of a user ──▶ tidy, list ──▶ what it downloads, what it links
//
// With -release it goes on as the first users of a release do, from the proxy alone:
//
//	README ──▶ its program, its commands, an empty folder ──▶ what it says it prints
//	go install cmd@version, twice ──▶ runs, knows its version, the same bytes
//	the program ──▶ lab/repo/sbom ──▶ the modules that are linked into it
//
// Inside go.work a missing require or an outdated version is not noticed; a user would
// find it first. Here it fails. The command also compares go.mod and go.sum of each
// module with what "go mod tidy" makes of them, because "go mod tidy" cannot be run in
// the tree (docs/decisions/0001).
//
//	go run ./lab/repo/rehearse          # check
//	go run ./lab/repo/rehearse -write   # and tidy go.mod and go.sum in the tree
//	go run ./lab/repo/rehearse -release # and everything that is left of a release
//	go run ./lab/repo/rehearse -cold    # the same, with nothing compiled before
//	go run ./lab/repo/rehearse -apart   # the modules with their own go.work, too; minutes
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// version is what the rehearsal publishes. The module cache of a rehearsal is its
// own, so the same version can have another content in the next one.
const version = "v0.0.0-rehearsal"

func main() {
	write := flag.Bool("write", false, "write the tidied go.mod and go.sum back")
	release := flag.Bool("release", false, "go on as the first users of a release do")
	cold := flag.Bool("cold", false, "as -release, and compile everything again where that matters")
	apart := flag.Bool("apart", false, "include the modules with their own go.work, which require hundreds of others")
	flag.Parse()
	if err := run(*write, *release || *cold, *cold, *apart); err != nil {
		fmt.Fprintln(os.Stderr, "rehearse:", err)
		os.Exit(1)
	}
}

func run(write, release, cold, apart bool) error {
	top, err := topOfRepository()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rehearse")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	mods, err := readModules(top, apart)
	if err != nil {
		return err
	}
	s := stage{top: top, dir: dir, write: write, cold: cold}
	s.env, err = s.environment(mods)
	if err != nil {
		return err
	}
	for i, m := range mods {
		start := time.Now()
		if err := s.publish(m); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		fmt.Printf("rehearse: %d of %d: %s: tidy, build, vet, published: %.1f s\n", i+1, len(mods), m.path, time.Since(start).Seconds())
	}
	for _, u := range users(mods) {
		if err := s.use(u); err != nil {
			return fmt.Errorf("a user of %v: %w", u.imports, err)
		}
	}
	fmt.Println("ok rehearse: every module builds alone")
	if release {
		return s.release(mods)
	}
	return nil
}

// stage is where a rehearsal happens.
type stage struct {
	top   string   // of the repository
	dir   string   // temporary
	env   []string // of the go command
	write bool
	cold  bool // use no compiled packages from before
}

func (s *stage) proxy() string { return filepath.Join(s.dir, "proxy") }
