// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// quickstart is what the README tells a reader to do first.
type quickstart struct {
	program  string // goes into main.go
	commands string // are run in that folder, by a shell
	output   string // is what they print then
}

var (
	goBlock   = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	textBlock = regexp.MustCompile("(?ms)^```text\n(.*?)^```$")
	// commandBlock is a block for the shell, or code in a sentence.
	commandBlock = regexp.MustCompile("(?ms)^```(?:sh|bash|shell|console)?\n(.*?)^```$|`(go mod init [^`]+)`")
)

// readQuickstart finds the first program of the README, and after it the first
// commands that begin a module and the first text in a block of its own.
func readQuickstart(readme string) (q quickstart, err error) {
	at := goBlock.FindStringSubmatchIndex(readme)
	if at == nil {
		return q, errors.New("README.md has no Go program")
	}
	q.program = readme[at[2]:at[3]]
	rest := readme[at[1]:]
	for _, m := range commandBlock.FindAllStringSubmatch(rest, -1) {
		if commands := m[1] + m[2]; strings.Contains(commands, "go mod init") {
			q.commands = strings.ReplaceAll(strings.TrimPrefix(strings.ReplaceAll("\n"+commands, "\n$ ", "\n"), "\n"), "\\\n", " ")
			break
		}
	}
	if q.commands == "" {
		return q, errors.New("README.md does not say how to run its first program: no command has go mod init")
	}
	if m := textBlock.FindStringSubmatch(rest); m != nil {
		q.output = m[1]
	}
	if q.output == "" {
		return q, errors.New("README.md does not say what its first program prints: no text block after it")
	}
	return q, nil
}

// patience is how long the README may take: a minute is what it promises.
const patience = time.Minute

// try does what the README says, in an empty folder and without a downloaded module,
// and, if it is cold, without a compiled package, as after installing Go.
func (s *stage) try(q quickstart) error {
	dir := filepath.Join(s.dir, "quickstart")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(q.program), 0o644); err != nil {
		return err
	}
	cmd := exec.Command("sh", "-e", "-c", q.commands)
	cmd.Dir = dir
	cmd.Env = append(s.fresh("quickstart"), "GOFLAGS=-modcacherw", "CGO_ENABLED=")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	switch {
	case err != nil:
		return fmt.Errorf("the commands of README.md (%s): %w\n%s", q.commands, err, stderr.Bytes())
	case stdout.String() != q.output:
		return fmt.Errorf("README.md says that its program prints %q, and it prints %q", q.output, stdout.String())
	case took > patience:
		return fmt.Errorf("what README.md tells to do first took %v, more than %v", took.Round(time.Second), patience)
	}
	fmt.Printf("ok rehearse: %s\n", strings.Join(strings.Fields(q.commands), " "))
	fmt.Printf("figure quickstart_seconds %.1f <=%.0f\n", took.Seconds(), patience.Seconds())
	return nil
}
