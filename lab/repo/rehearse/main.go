// SPDX-License-Identifier: Apache-2.0

// Command rehearse publishes the modules of the repository to a proxy in a
// temporary folder and builds each as its users get it, without go.work:
//
//	git ls-files ──▶ copies ──▶ require ours, tidy, vet ──▶ zip ──▶ proxy
//	                               ▲  in the order of their imports   │
//	                               └──────────────────────────────────┘
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
// The version is the one at which the go.mod files require each other. Each module is published as it is in the
// tree, except for the lines of go.sum about our own modules: they have the hashes of the tagged files, so they are
// right in the commit of a release only. With -sums they are compared, too.
//
//	go run ./lab/repo/rehearse               # check
//	go run ./lab/repo/rehearse -write        # and tidy go.mod and go.sum in the tree
//	go run ./lab/repo/rehearse -raise v0.2.0 # the next version in every go.mod and go.work, tidied
//	go run ./lab/repo/rehearse -sums -write  # the last step before the tags: our own lines of go.sum
//	go run ./lab/repo/rehearse -release      # and everything that is left of a release
//	go run ./lab/repo/rehearse -cold         # the same, with nothing compiled or downloaded before
//	go run ./lab/repo/rehearse -apart        # the modules with their own go.work, too; minutes
//	go run ./lab/repo/rehearse -keep DIR     # leave what was published in DIR, to try it by hand
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fencelock/fencelock/lab/internal/checkout"
)

// options are the flags.
type options struct {
	write, sums, release, cold, apart bool
	raise, keep                       string
}

func main() {
	var o options
	flag.BoolVar(&o.write, "write", false, "write the tidied go.mod and go.sum back")
	flag.StringVar(&o.raise, "raise", "", "first write this version of our modules into every go.mod and go.work; means -write and -apart")
	flag.BoolVar(&o.sums, "sums", false, "compare the lines of go.sum about our own modules, too, which only the commit of a release has; means -apart")
	flag.BoolVar(&o.release, "release", false, "go on as the first users of a release do")
	flag.BoolVar(&o.cold, "cold", false, "as -release, and compile and download everything again where that matters")
	flag.BoolVar(&o.apart, "apart", false, "include the modules with their own go.work, which require hundreds of others")
	flag.StringVar(&o.keep, "keep", "", "leave what was published below this folder, and print the settings with which the go command uses it")
	flag.Parse()
	o.write = o.write || o.raise != ""
	o.release = o.release || o.cold
	o.apart = o.apart || o.sums || o.raise != ""
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "rehearse:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	top, err := checkout.Top()
	if err != nil {
		return err
	}
	dir, err := o.folder()
	if err != nil {
		return err
	}
	if o.keep == "" {
		defer os.RemoveAll(dir)
	}
	mods, err := readModules(top, o.apart)
	if err != nil {
		return err
	}
	s := stage{options: o, top: top, dir: dir, ours: mods[0].path}
	if err := s.chooseVersion(mods); err != nil {
		return err
	}
	s.env, err = s.environment()
	if err != nil {
		return err
	}
	for i, m := range mods {
		start := time.Now()
		if err := s.publish(m); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		fmt.Printf("rehearse: %d of %d: %s@%s: tidy, vet, published: %.1f s\n", i+1, len(mods), m.path, s.version, time.Since(start).Seconds())
	}
	for _, u := range users(mods) {
		if err := s.use(u); err != nil {
			return fmt.Errorf("a user of %v: %w", u.imports, err)
		}
	}
	fmt.Println("ok rehearse: every module builds alone")
	if o.keep != "" {
		// A folder of modules of its own, because this version is not the one that will be released. The checksum database
		// knows neither these nor, where it cannot be reached, any other.
		fmt.Printf("rehearse: to use what was published: export GOWORK=off GOSUMDB=off GOFLAGS=-modcacherw GOMODCACHE=%s GOPROXY=%s,$(go env GOPROXY)\n",
			filepath.Join(s.dir, "cache"), fileURL(s.proxy()))
	}
	if o.release {
		return s.release(mods)
	}
	return nil
}

// folder is where everything is put.
func (o options) folder() (string, error) {
	if o.keep == "" {
		return os.MkdirTemp("", "rehearse")
	}
	if err := os.MkdirAll(o.keep, 0o755); err != nil {
		return "", err
	}
	dir, err := filepath.Abs(o.keep)
	if err != nil {
		return "", err
	}
	// A new one each time: the go command takes a version in one folder of modules for the same files forever.
	return os.MkdirTemp(dir, "rehearsal")
}

// stage is where a rehearsal happens.
type stage struct {
	options
	top     string   // of the repository
	dir     string   // temporary
	ours    string   // path of the root module, and what those of all others begin with
	version string   // that is published
	env     []string // of the go command
}

func (s *stage) proxy() string { return filepath.Join(s.dir, "proxy") }

// src is where the copy of a module is.
func (s *stage) src(m *module) string { return filepath.Join(s.dir, "src", filepath.FromSlash(m.dir)) }
