// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// chooseVersion sets the version to publish: the one that the tree requires, or the one to raise it to.
func (s *stage) chooseVersion(mods []*module) error {
	if s.raise != "" {
		s.version = s.raise
		return s.raiseTree(mods)
	}
	required := map[string]string{}
	for _, m := range mods {
		text, err := os.ReadFile(filepath.Join(s.top, filepath.FromSlash(m.dir), "go.mod"))
		if err != nil {
			return err
		}
		for path, v := range requires(text, s.ours) {
			required[m.path+" requires "+path] = v
		}
	}
	var err error
	s.version, err = oneVersion(required)
	return err
}

// requires returns which modules of ours a go.mod requires, and at which version.
func requires(gomod []byte, ours string) map[string]string {
	found := map[string]string{}
	for line := range bytes.Lines(gomod) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(string(line)), "require "))
		if len(fields) > 1 && isOurs(fields[0], ours) {
			found[fields[0]] = fields[1]
		}
	}
	return found
}

func isOurs(path, ours string) bool { return path == ours || strings.HasPrefix(path, ours+"/") }

// oneVersion returns the version that all have. Modules of two versions would be tested together by nobody.
func oneVersion(required map[string]string) (string, error) {
	first := ""
	for _, who := range slices.Sorted(maps.Keys(required)) {
		switch {
		case first == "":
			first = who
		case required[who] != required[first]:
			return "", fmt.Errorf("%s at %s, but %s at %s; run go run ./lab/repo/rehearse -raise VERSION", first, required[first], who, required[who])
		}
	}
	if first == "" {
		return "", errors.New("no go.mod requires another module of ours; run go run ./lab/repo/rehearse -raise VERSION")
	}
	return required[first], nil
}

var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// raiseTree writes the version into every file of the tree that names it.
func (s *stage) raiseTree(mods []*module) error {
	if !released.MatchString(s.version) {
		return fmt.Errorf("%q is no version; write v0.2.0", s.version)
	}
	dirs := map[string]string{} // of modules, by path
	for _, m := range mods {
		dirs[m.path] = m.dir
	}
	for _, m := range mods {
		edit := func(file string, change func(text string) string) error {
			return rewrite(filepath.Join(s.top, filepath.FromSlash(m.dir), file), change)
		}
		if err := edit("go.mod", func(text string) string { return requireAt(text, m.needs, s.ours, s.version) }); err != nil {
			return err
		}
		if err := edit("go.work", func(text string) string { return replaceAt(text, m.dir, needed(mods), dirs, s.version) }); err != nil {
			return err
		}
	}
	return rewrite(filepath.Join(s.top, pythonProject), func(text string) string {
		return pythonVersion.ReplaceAllString(text, `version = "`+strings.TrimPrefix(s.version, "v")+`"`)
	})
}

// rewrite changes a file, if it exists.
func rewrite(file string, change func(text string) string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if changed := change(string(text)); changed != string(text) {
		fmt.Println("rehearse: written:", file)
		return os.WriteFile(file, []byte(changed), 0o644)
	}
	return nil
}

// requireAt returns a go.mod that requires the modules that it needs at a version; go mod tidy adds
// what they need, and sorts.
func requireAt(gomod string, needs []string, ours, version string) string {
	have := requires([]byte(gomod), ours)
	for path, v := range have {
		gomod = strings.ReplaceAll(gomod, path+" "+v, path+" "+version)
	}
	var missing []string
	for _, path := range needs {
		if have[path] == "" {
			missing = append(missing, "\t"+path+" "+version+"\n")
		}
	}
	if len(missing) == 0 {
		return gomod
	}
	at := firstRequire.FindStringSubmatchIndex(gomod)
	if at == nil {
		return gomod + "\nrequire (\n" + strings.Join(missing, "") + ")\n"
	}
	lines := missing
	if at[2] >= 0 { // a block
		lines = append(lines, slices.Collect(strings.Lines(gomod[at[2]:at[3]]))...)
	} else {
		lines = append(lines, "\t"+gomod[at[4]:at[5]]+"\n")
	}
	slices.Sort(lines)
	return gomod[:at[0]] + "require (\n" + strings.Join(lines, "") + ")" + gomod[at[1]:]
}

// firstRequire is the first block of requirements, or the first one that is alone.
var firstRequire = regexp.MustCompile(`(?m)^require (?:\(\n((?:\t.*\n)*)\)|([^(\n].*))$`)

// needed returns the paths of the modules that others need, sorted.
func needed(mods []*module) []string {
	var all []string
	for _, m := range mods {
		all = append(all, m.needs...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// beside begins the part of a go.work that the rehearsal writes.
const beside = "\n// A go.mod names the released version of our other modules. In a clone it is the code beside it, so that no\n" +
	"// release is downloaded, nor must exist. Written by go run ./lab/repo/rehearse -raise.\n"

var use = regexp.MustCompile(`(?m)^\s*(?:use )?(\.[./\w-]*)$`)

// replaceAt returns a go.work, in the folder dir, in which the modules that it uses stand for their release,
// too. To use them is not enough: the go command reads the go.mod of each version that is required somewhere. A
// replacement of every version is refused for modules that are used, so each has its version.
func replaceAt(gowork, dir string, needed []string, dirs map[string]string, version string) string {
	gowork, _, _ = strings.Cut(gowork, beside)
	var lines string
	for _, module := range needed {
		for _, m := range use.FindAllStringSubmatch(gowork, -1) {
			if path.Join(dir, m[1]) == dirs[module] {
				lines += "\t" + module + " " + version + " => " + m[1] + "\n"
			}
		}
	}
	return gowork + beside + "replace (\n" + lines + ")\n"
}

// forgetSums takes our own lines out of a go.sum: those in the tree are of a release, whose files may differ from
// the tree by now.
func (s *stage) forgetSums(dir string) error {
	file := filepath.Join(dir, "go.sum")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(file, sumsOf(text, nil, s.ours), 0o644)
}

// compareTidied compares go.mod and go.sum in the tree with the tidied ones.
func (s *stage) compareTidied(dir string, m *module) error {
	gomod, sum, err := modFiles(dir)
	if err != nil {
		return err
	}
	_, haveSum, err := modFiles(filepath.Join(s.top, filepath.FromSlash(m.dir)))
	if err != nil {
		return err
	}
	if !s.sums {
		sum = sumsOf(sum, haveSum, s.ours)
	}
	return errors.Join(s.compare(m, "go.mod", gomod), s.compare(m, "go.sum", sum))
}

// modFiles returns go.mod and go.sum of a folder; either may not be there.
func modFiles(dir string) (gomod, gosum []byte, err error) {
	for name, text := range map[string]*[]byte{"go.mod": &gomod, "go.sum": &gosum} {
		*text, err = os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, err
		}
	}
	return gomod, gosum, nil
}

// sumsOf are the lines of a go.sum: those of others as the rehearsal found them, those
// of ours as the tree has them.
func sumsOf(rehearsed, tree []byte, ours string) []byte {
	path := func(line string) string { p, _, _ := strings.Cut(line, " "); return p }
	var lines []string
	for line := range strings.Lines(string(rehearsed)) {
		if !isOurs(path(line), ours) {
			lines = append(lines, line)
		}
	}
	for line := range strings.Lines(string(tree)) {
		if isOurs(path(line), ours) {
			lines = append(lines, line)
		}
	}
	// By path only: the versions of one path keep their order.
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(path(a), path(b)) })
	return []byte(strings.Join(lines, ""))
}
