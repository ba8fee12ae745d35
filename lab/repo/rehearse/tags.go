// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// tag makes a repository of what was published, with all tags on one commit, and builds the command in it as the
// release does: without go.work, with go.sum as it is, and our own modules from their tags.
//
// That one commit is enough is not obvious: its go.sum files have the hashes of modules that do not exist before the tags
// do. But a hash is of files alone. No module needs itself, so each can be computed after those that it needs, and the
// go command, which here takes the modules out of the repository by itself, must come to the same.
func (s *stage) tag(mods []*module) error {
	repository := filepath.Join(s.dir, "src")
	steps := [][]string{
		{"init", "-q"}, {"add", "--all", "--force"},
		{"-c", "user.name=rehearsal", "-c", "user.email=rehearsal@localhost", "commit", "-q", "-m", "release " + s.version},
	}
	for _, m := range mods {
		steps = append(steps, []string{"tag", tagOf(m.dir, s.version)})
	}
	for _, args := range steps {
		cmd := exec.Command("git", args...)
		cmd.Dir = repository
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	program := filepath.Join(s.dir, "tagged")
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir = filepath.Join(repository, "cmd", "fencelock")
	cmd.Env = append(slices.Clone(s.env), // what is compiled is used even if cold: the two builds before this one compared that
		"GOMODCACHE="+filepath.Join(s.dir, "tagged-modules"), "GOFLAGS=-mod=readonly -modcacherw -trimpath -buildvcs=true", "GONOPROXY="+s.ours,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+fileURL(repository)+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+s.ours)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build at the tag %s: %w\n%s", tagOf("cmd/fencelock", s.version), err, out)
	}
	info, err := exec.Command("go", "version", "-m", program).Output()
	if err != nil {
		return fmt.Errorf("go version -m: %w", err)
	}
	n := bytes.Count(info, []byte("\t"+s.version+"\t"))
	if !bytes.Contains(info, []byte("\tmod\t"+s.ours+"/cmd/fencelock\t"+s.version+"\t")) || n < 2 {
		return fmt.Errorf("the program that was built at the tag does not have version %s of our modules:\n%s", s.version, info)
	}
	fmt.Printf("ok rehearse: %d tags on one commit: the command builds from them with go.sum as it is, and has %d of our modules at %s\n", len(mods), n, s.version)
	return os.Remove(program)
}

// tagOf is the tag of the module in a folder.
func tagOf(dir, version string) string {
	if dir == "." {
		return version
	}
	return dir + "/" + version
}
