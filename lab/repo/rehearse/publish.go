// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
)

// environment is what the go command sees: no workspace, our proxy first, then
// what this machine has already downloaded, then wherever it downloads from.
func (s *stage) environment() ([]string, error) {
	out, err := exec.Command("go", "env", "GOPROXY", "GOMODCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 2 {
		return nil, fmt.Errorf("go env printed %q", out)
	}
	downloads := filepath.Join(lines[1], "cache", "download")
	return append(os.Environ(),
		"GOWORK=off",
		"GOPROXY="+strings.Join([]string{fileURL(s.proxy()), fileURL(downloads), lines[0]}, ","),
		"GOMODCACHE="+filepath.Join(s.dir, "cache"),
		"GOPRIVATE=", "GONOPROXY=none", // ours come from a proxy too
		"GONOSUMDB="+s.ours, // and what is below it: the checksum database does not know them
		// trimpath: the build cache then knows what an earlier rehearsal compiled.
		"GOFLAGS=-mod=mod -modcacherw -trimpath -buildvcs=false",
		"CGO_ENABLED=0", // as the released command is built
	), nil
}

func fileURL(dir string) string { return "file://" + filepath.ToSlash(dir) }

// command runs a go command in a folder of the stage.
func (s *stage) command(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, s.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// publish builds a copy of a module as it would be released and puts it into the
// proxy.
func (s *stage) publish(m *module) error {
	dir := s.src(m)
	names, err := s.copyTo(dir, m)
	if err != nil {
		return err
	}
	if err := s.forgetSums(dir); err != nil {
		return err
	}
	if _, err := s.command(dir, "mod", "tidy"); err != nil {
		return err
	}
	if err := s.compareTidied(dir, m); err != nil {
		return err
	}
	// vet type-checks every package and its tests. Building them, too, took as long again and found nothing more; the
	// programs of users are built below. Nobody can require lab: that its go.mod is tidy is enough.
	if m.dir != "lab" {
		if _, err := s.command(dir, "vet", "./..."); err != nil {
			return err
		}
	}
	return s.pack(dir, m, names)
}

// copyTo copies the files of a module and returns their names within it. A module
// without a license file gets the root's, as the go command does it.
func (s *stage) copyTo(dir string, m *module) ([]string, error) {
	var names []string
	licensed := false
	add := func(from, name string) error {
		text, err := os.ReadFile(filepath.Join(s.top, filepath.FromSlash(from)))
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		names = append(names, name)
		return os.WriteFile(to, text, 0o644)
	}
	for _, f := range m.files {
		name := f
		if m.dir != "." {
			name = strings.TrimPrefix(f, m.dir+"/")
		}
		licensed = licensed || name == "LICENSE"
		if err := add(f, name); err != nil {
			return nil, err
		}
	}
	if !licensed {
		return names, add("LICENSE", "LICENSE")
	}
	return names, nil
}

// pack writes the four files of a version into the proxy: list, info, mod, zip.
func (s *stage) pack(dir string, m *module, names []string) error {
	gomod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "go.sum")); err == nil && !slices.Contains(names, "go.sum") {
		names = append(names, "go.sum") // the first one that the module has
	}
	info, err := json.Marshal(map[string]any{"Version": s.version, "Time": time.Now().UTC()})
	if err != nil {
		return err
	}
	archive, err := zipModule(dir, m.path+"@"+s.version+"/", names)
	if err != nil {
		return err
	}
	at := filepath.Join(s.proxy(), filepath.FromSlash(escape(m.path)), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(at, "list"), []byte(s.version+"\n"), 0o644),
		os.WriteFile(filepath.Join(at, s.version+".info"), info, 0o644),
		os.WriteFile(filepath.Join(at, s.version+".mod"), gomod, 0o644),
		os.WriteFile(filepath.Join(at, s.version+".zip"), archive, 0o644),
	)
}

// zipModule makes a module zip: every name begins with module@version/.
func zipModule(dir, prefix string, names []string) ([]byte, error) {
	var buf bytes.Buffer
	archive := zip.NewWriter(&buf)
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		w, err := archive.Create(prefix + name)
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			return nil, err
		}
	}
	err := archive.Close() // before the bytes are taken: it writes the directory
	return buf.Bytes(), err
}

// escape writes a module path as a proxy stores it: upper case as "!" and lower.
func escape(path string) string {
	var b strings.Builder
	for _, r := range path {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

func (s *stage) compare(m *module, name string, want []byte) error {
	file := filepath.Join(s.top, filepath.FromSlash(m.dir), name)
	have, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch {
	case bytes.Equal(have, want):
		return nil
	case s.write:
		fmt.Printf("rehearse: %s/%s written\n", m.dir, name)
		return os.WriteFile(file, want, 0o644)
	}
	return fmt.Errorf("%s/%s is not tidy; run go run ./lab/repo/rehearse -write", m.dir, name)
}
