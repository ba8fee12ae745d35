// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
)

// unreleased are folders whose modules have no tag.
var unreleased = []string{"lab", "examples"}

func (m *module) released() bool {
	top, _, _ := strings.Cut(m.dir, "/")
	for _, dir := range unreleased {
		if top == dir {
			return false
		}
	}
	return true
}

// getEach gets every released module into an empty program, with no module downloaded before. What others published
// comes from the cache of this machine where it is there, so the time is without most of the network.
func (s *stage) getEach(mods []*module) error {
	slowest := 0.0
	for _, m := range mods {
		if !m.released() {
			continue
		}
		dir, err := os.MkdirTemp(s.dir, "get")
		if err != nil {
			return err
		}
		cmd := exec.Command("sh", "-e", "-c", "go mod init x\ngo get "+m.path+"@"+s.version)
		cmd.Dir = dir
		cmd.Env = append(s.env, "GOMODCACHE="+filepath.Join(dir, "modules"), "GOFLAGS=-modcacherw", "GOSUMDB=off")
		began := time.Now()
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("go get %s@%s: %w\n%s", m.path, s.version, err, out)
		}
		took := time.Since(began).Seconds()
		slowest = max(slowest, took)
		fmt.Printf("rehearse: cold go get %s@%s: %.1f s, %d modules downloaded\n", m.path, s.version, took, strings.Count(string(out), "go: downloading "))
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	figure.Print("go_get_slowest_seconds", slowest, figure.Bound{})
	return nil
}

// pythonProject is what pip reads, and pythonVersion the line of it that has the version.
const pythonProject = "clients/python/pyproject.toml"

var pythonVersion = regexp.MustCompile(`(?m)^version = ".*"$`)

// pip builds the Python client into a wheel, from what is committed, and installs it into an empty environment, which
// must be able to import it. A machine without Python, or without the build tools of pip, prints that.
func (s *stage) pip() error {
	dir := filepath.Join(s.dir, "python")
	python := filepath.Join(dir, "venv", "bin", "python")
	if out, err := exec.Command("python3", "-m", "venv", filepath.Join(dir, "venv")).CombinedOutput(); err != nil {
		fmt.Printf("rehearse: pip install: not run: python3 -m venv: %v: %s\n", err, firstLine(out))
		return nil
	}
	source := filepath.Join(s.dir, "src", "clients", "python")
	wheels := filepath.Join(dir, "wheels")
	began := time.Now()
	if out, err := exec.Command(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, source).CombinedOutput(); err != nil {
		return fmt.Errorf("pip wheel: %w\n%s", err, out)
	}
	built := time.Since(began)
	began = time.Now()
	args := []string{"-m", "pip", "install", "--quiet", "--no-index", "--no-cache-dir", "--find-links", wheels, "fencelock==" + strings.TrimPrefix(s.version, "v")}
	if out, err := exec.Command(python, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("pip install: %w\n%s", err, out)
	}
	installed := time.Since(began)
	if out, err := exec.Command(python, "-c", "import fencelock; fencelock.Client; fencelock.Lost").CombinedOutput(); err != nil {
		return fmt.Errorf("the installed client cannot be imported: %w\n%s", err, out)
	}
	fmt.Printf("rehearse: pip wheel: %.1f s, its build tools included\n", built.Seconds())
	figure.Print("pip_install_seconds", installed.Seconds(), figure.Bound{})
	return nil
}

func firstLine(out []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
