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

	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/servers"
)

// quickstart is what the README asks a reader to do first.
type quickstart struct {
	program  string // goes into main.go
	commands string // are run in that folder, by a shell
	output   string // is what they print then
}

var (
	goBlock   = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	textBlock = regexp.MustCompile("(?ms)^```text\n(.*?)^```$")
	// block is a block in any language, so that the end of one is not taken for the
	// beginning of the next.
	block = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	shell = regexp.MustCompile(`^(sh|bash|shell|console)?$`)
)

// readQuickstart finds the first commands of the README that get a module, its first
// program and, after that, the first block of text. The program is in an empty module:
// until the release, the README runs it from a clone instead.
func readQuickstart(readme string) (q quickstart, err error) {
	for _, m := range block.FindAllStringSubmatch(readme, -1) {
		if shell.MatchString(m[1]) && strings.Contains(m[2], "go get ") {
			get := strings.ReplaceAll(strings.TrimPrefix(strings.ReplaceAll("\n"+m[2], "\n$ ", "\n"), "\n"), "\\\n", " ")
			q.commands = "go mod init x\n" + get + "go run .\n"
			break
		}
	}
	if q.commands == "" {
		return q, errors.New("README.md has no command that gets a module: no block has go get")
	}
	at := goBlock.FindStringSubmatchIndex(readme)
	if at == nil {
		return q, errors.New("README.md has no Go program")
	}
	q.program = readme[at[2]:at[3]]
	if m := textBlock.FindStringSubmatch(readme[at[1]:]); m != nil {
		q.output = m[1]
	}
	if q.output == "" {
		return q, errors.New("README.md does not show what its first program prints: no text block after it")
	}
	return q, nil
}

// patience is how long the README may take: a minute is what it promises. Only processor time
// beyond a minute of two cores fails: a machine that others use takes longer for the same work.
const patience = time.Minute

// readmeServer is where the first program of the README expects its server.
const readmeServer = "localhost:6379"

// tokenText has a number that differs from run to run.
var tokenText = regexp.MustCompile(`token [0-9]+`)

// matches reports whether the program printed what the README shows, but for the token.
func (q quickstart) matches(printed string) bool {
	return tokenText.ReplaceAllString(printed, "token N") == tokenText.ReplaceAllString(q.output, "token N")
}

// on returns the quick start with a server at another address, because the usual port may
// belong to a server that is not ours.
func (q quickstart) on(addr string) (quickstart, error) {
	if !strings.Contains(q.program, readmeServer) {
		return q, fmt.Errorf("the first program of README.md does not connect to %s", readmeServer)
	}
	q.program = strings.ReplaceAll(q.program, readmeServer, addr)
	return q, nil
}

// try does what the README says, with a dedicated server, in an empty folder and without
// a downloaded module, and, if it is cold, without a compiled package, as after installing
// Go. The checksum database may be out of reach here: see install.
func (s *stage) try(q quickstart) error {
	server, err := servers.Redis.Start()
	if err != nil {
		return err
	}
	defer server.Stop()
	if q, err = q.on(server.Addr); err != nil {
		return err
	}
	dir := filepath.Join(s.dir, "quickstart")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(q.program), 0o644); err != nil {
		return err
	}
	cmd := exec.Command("sh", "-e", "-c", q.commands)
	cmd.Dir = dir
	cmd.Env = append(s.fresh("quickstart"), "GOFLAGS=-modcacherw", "CGO_ENABLED=", "GOSUMDB=off")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err = cmd.Run()
	took := time.Since(began)
	if err != nil {
		return fmt.Errorf("the commands of README.md (%s): %w\n%s", q.commands, err, stderr.Bytes())
	}
	work := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	switch {
	case !q.matches(stdout.String()):
		return fmt.Errorf("README.md shows that its program prints %q, and it prints %q", q.output, stdout.String())
	case work > 2*patience:
		return fmt.Errorf("the first steps of README.md took %v of processor time, more than %v", work.Round(time.Second), 2*patience)
	}
	fmt.Printf("ok rehearse: %s\n", strings.Join(strings.Fields(q.commands), " "))
	figure.Print("quickstart_seconds", took.Seconds(), figure.AtMost(patience.Seconds()))
	return nil
}
