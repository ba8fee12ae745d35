// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// release does what the first users of a release do.
func (s *stage) release(mods []*module) error {
	readme, err := os.ReadFile(filepath.Join(s.top, "README.md"))
	if err != nil {
		return err
	}
	q, err := readQuickstart(string(readme))
	if err == nil {
		err = s.try(q)
	}
	if err != nil {
		return err
	}
	i := slices.IndexFunc(mods, func(m *module) bool { return m.dir == "cmd/fencelock" })
	if i < 0 {
		return errors.New("there is no module in cmd/fencelock to install")
	}
	first, err := s.install(mods[i], "first", s.fresh("first"))
	if err == nil {
		err = works(first, s.version)
	}
	if err != nil {
		return err
	}
	// From another folder. Cold, nothing of the first build is used; otherwise the
	// compiled packages are, and only what depends on the folder can differ.
	second, err := s.install(mods[i], "second", s.fresh("second"))
	if err == nil {
		err = sameBytes(first, second)
	}
	if err == nil {
		err = s.bill(first, mods)
	}
	if err == nil {
		err = s.tag(mods)
	}
	if err == nil && s.cold {
		err = errors.Join(s.getEach(mods), s.pip())
	}
	if err == nil {
		fmt.Println("ok rehearse: released, installed and tried")
	}
	return err
}

// fresh is the environment with a separate module cache, and a separate build cache if
// cold.
func (s *stage) fresh(name string) []string {
	env := append(slices.Clone(s.env), "GOMODCACHE="+filepath.Join(s.dir, name+"-modules"))
	if s.cold {
		env = append(env, "GOCACHE="+filepath.Join(s.dir, name+"-cache"))
	}
	return env
}

// install gets the command as its users do, and returns the program. There is no
// go.sum in that: users ask the checksum database. Here the same versions were compared
// with go.sum when the module was built, and the database may be out of reach.
func (s *stage) install(m *module, name string, env []string) (string, error) {
	bin := filepath.Join(s.dir, name)
	env = append(slices.Clone(env), "GOBIN="+bin, "GOFLAGS=-modcacherw -trimpath", "GOSUMDB=off")
	began := time.Now()
	cmd := exec.Command("go", "install", m.path+"@"+s.version)
	cmd.Dir, cmd.Env = s.dir, env
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install %s@%s: %w\n%s", m.path, s.version, err, out)
	}
	fmt.Printf("rehearse: go install %s@%s: %.1f s\n", m.path, s.version, time.Since(began).Seconds())
	return filepath.Join(bin, "fencelock"), nil
}

// works runs the installed program.
func works(program, version string) error {
	help, err := exec.Command(program, "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(help), "fencelock run") {
		return fmt.Errorf("fencelock --help: %v\n%s", err, help)
	}
	out, err := exec.Command(program, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "fencelock "+version+",") {
		return fmt.Errorf("fencelock version does not print %s: %v\n%s", version, err, out)
	}
	fmt.Printf("ok rehearse: the installed program prints: %s", out)
	return nil
}

// sameBytes compares two builds.
func sameBytes(first, second string) error {
	a, errA := sum(first)
	b, errB := sum(second)
	if err := errors.Join(errA, errB); err != nil {
		return err
	}
	if a != b {
		return fmt.Errorf("two builds of the same source differ: %s and %s; go version -m shows what went into them", a, b)
	}
	fmt.Println("ok rehearse: two builds in two folders have the same SHA-256:", a)
	return nil
}

func sum(file string) (string, error) {
	text, err := os.ReadFile(file)
	h := sha256.Sum256(text)
	return hex.EncodeToString(h[:]), err
}

// bill writes the bill of materials and the notices, and checks that what must be in
// them is. The licenses are in the module cache of the build.
func (s *stage) bill(program string, mods []*module) error {
	out := filepath.Join(s.dir, "fencelock.cdx.json")
	notices := filepath.Join(s.dir, "THIRD_PARTY_NOTICES.txt")
	cmd := exec.Command("go", "run", "./lab/repo/sbom", "-o", out, "-notices", notices, program)
	cmd.Dir, cmd.Env = s.top, append(os.Environ(), "GOMODCACHE="+filepath.Join(s.dir, "first-modules"))
	if printed, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("lab/repo/sbom: %w\n%s", err, printed)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	beside, err := os.ReadFile(notices)
	if err != nil {
		return err
	}
	var bill struct {
		Metadata   struct{ Component struct{ Purl string } }
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &bill); err != nil {
		return err
	}
	var ours []string
	for _, c := range bill.Components {
		if provider(c.Name, mods) == c.Name && c.Version == s.version {
			ours = append(ours, c.Name)
		}
	}
	if !slices.Contains(ours, mods[0].path) || len(bill.Components) <= len(ours) || !strings.HasSuffix(bill.Metadata.Component.Purl, "@"+s.version) {
		return fmt.Errorf("the bill of materials does not list what is linked into the program:\n%s", text)
	}
	if n := bytes.Count(beside, []byte("\nSource: ")); n != len(bill.Components)-len(ours) {
		return fmt.Errorf("the notices have %d modules, want %d", n, len(bill.Components)-len(ours))
	}
	fmt.Printf("ok rehearse: the bill of materials lists %d modules, %d of them ours\n", len(bill.Components), len(ours))
	return nil
}
