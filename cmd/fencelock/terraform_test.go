// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
)

// terraformVariable names a terraform or tofu that is not on the PATH.
const terraformVariable = "FENCELOCK_TEST_TERRAFORM"

// terraformProgram finds terraform or tofu.
func terraformProgram(t *testing.T) string {
	t.Helper()
	if path := os.Getenv(terraformVariable); path != "" {
		return path
	}
	for _, name := range []string{"terraform", "tofu"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("terraform or tofu is not installed; put one on the PATH, or name it: go install github.com/opentofu/opentofu/cmd/tofu@v1.12.6 && export %s=$(go env GOPATH)/bin/tofu", terraformVariable)
	return ""
}

// stack is a folder with a configuration whose state is on a server.
type stack struct {
	*testing.T
	program, dir string
	env          []string
}

// provisioned has a resource that needs no provider from elsewhere. Its command waits until
// a file is there, if the variable names one.
const provisioned = `terraform {
  backend "http" {}
}
variable "value" { type = string }
variable "until" {
  type    = string
  default = ""
}
resource "terraform_data" "it" {
  input            = var.value
  triggers_replace = var.value
  provisioner "local-exec" {
    command = "if [ -n \"$UNTIL\" ]; then touch \"$UNTIL.waits\"; while [ ! -e \"$UNTIL\" ]; do sleep 0.05; done; fi"
    environment = { UNTIL = var.until }
  }
}
output "value" { value = terraform_data.it.output }
`

// newStack makes a folder for a user and runs init in it.
func newStack(t *testing.T, program, url, user, token string) *stack {
	t.Helper()
	s := &stack{T: t, program: program, dir: t.TempDir()}
	address := url + "/v1/terraform?name=tf/prod"
	s.env = append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_CLI_CONFIG_FILE=/dev/null", "TF_HTTP_ADDRESS="+address,
		"TF_HTTP_LOCK_ADDRESS="+address, "TF_HTTP_UNLOCK_ADDRESS="+address, "TF_HTTP_USERNAME="+user, "TF_HTTP_PASSWORD="+token, "TF_HTTP_RETRY_MAX=0")
	if err := os.WriteFile(filepath.Join(s.dir, "main.tf"), []byte(provisioned), 0o600); err != nil {
		t.Fatal(err)
	}
	s.want(0, "init", "-input=false", "-no-color")
	return s
}

// ran is a run of terraform.
type ran struct {
	*stack
	cmd  *exec.Cmd
	text bytes.Buffer
}

// start runs terraform in a process group, so that it can be paused with its children.
func (s *stack) start(args ...string) *ran {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 4*patience) // one may wait for several others
	s.Cleanup(cancel)
	r := &ran{stack: s, cmd: exec.CommandContext(ctx, s.program, args...)}
	r.cmd.WaitDelay = time.Second
	r.cmd.Dir, r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = s.dir, s.env, &r.text, &r.text
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = r.signal(syscall.SIGKILL) })
	return r
}

func (r *ran) signal(sig syscall.Signal) error { return syscall.Kill(-r.cmd.Process.Pid, sig) }

// ended returns the output of a run that ends with a code.
func (r *ran) ended(code int) string {
	r.Helper()
	_ = r.cmd.Wait()
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		r.Fatalf("%v: exit code %d, want %d\n%s", r.cmd.Args, got, code, r.text.String())
	}
	return r.text.String()
}

func (s *stack) want(code int, args ...string) string {
	s.Helper()
	return s.start(args...).ended(code)
}

func apply(value string, more ...string) []string {
	return append([]string{"apply", "-auto-approve", "-input=false", "-no-color", "-var", "value=" + value}, more...)
}

// shared is a server that keeps a state, with three users: op may unlock by force.
type shared struct {
	*server
	dir          string
	ann, bob, op *stack
}

func newShared(t *testing.T) *shared {
	t.Helper()
	program, s, dir := terraformProgram(t), startRedis(t), t.TempDir()
	users := filepath.Join(dir, "users.json")
	rights := map[string]string{"ann": "see,state", "bob": "see,state", "op": "see,state,break"}
	tokens := map[string]string{}
	for name, may := range rights {
		made := fencelockCLI(t, s.url(), "serve", "token", name, "--may", may, "--prefix", "tf/", "--users", users).want(0)
		tokens[name] = strings.TrimSpace(made.out.String())
	}
	_, url := serving(t, s, "--users", users, "--terraform", newStates(t, dir), "--audit", filepath.Join(dir, "audit.log"))
	of := func(name string) *stack { return newStack(t, program, url, name, tokens[name]) }
	return &shared{s, dir, of("ann"), of("bob"), of("op")}
}

// newStates makes a folder for states.
func newStates(t *testing.T, dir string) string {
	t.Helper()
	states := filepath.Join(dir, "states")
	fencelockCLI(t, "mem://", "serve", "states", states).want(0)
	return states
}

// atWork starts an apply that is at work until open is called.
func (s *shared) atWork(st *stack, value string) (r *ran, open func()) {
	st.Helper()
	gate := filepath.Join(s.dir, "gate-"+value)
	r = st.start(apply(value, "-var", "until="+gate)...)
	until(st.T, value+" is at work", func() bool { return exists(gate + ".waits") })
	return r, func() {
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			st.Fatal(err)
		}
	}
}

// TestTerraformApplies: of two applies at once the second one fails with the id of the first one's
// lock, or waits for it. Without a lock nothing is written.
func TestTerraformApplies(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	first, open := s.atWork(s.ann, "first")
	st, err := s.client(t, nil).Inspect(t.Context(), "tf/prod")
	if err != nil || len(st.Holders) != 1 {
		t.Fatalf("got %+v, %v", st, err)
	}
	contains(t, s.bob.want(1, apply("second")...), "Error acquiring the state lock", "ID="+st.Holders[0].Record.Labels["terraform"])
	waits := s.bob.start(apply("second", "-lock-timeout=60s")...)
	open()
	first.ended(0)
	waits.ended(0)
	contains(t, s.ann.want(0, "output", "-no-color", "value"), "second")
	contains(t, s.bob.want(1, apply("third", "-lock=false")...), "409")
	contains(t, s.bob.want(0, "output", "-no-color", "value"), "second")
}

// TestLateTerraformApplyWritesNothing: an apply is paused, its lock unlocked by force, and
// another one applies. The late one fails and keeps its state to itself.
func TestLateTerraformApplyWritesNothing(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	late, open := s.atWork(s.ann, "late")
	if err := late.signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	st, err := s.client(t, nil).Inspect(t.Context(), "tf/prod")
	if err != nil || len(st.Holders) != 1 {
		t.Fatalf("got %+v, %v", st, err)
	}
	id := st.Holders[0].Record.Labels["terraform"]
	contains(t, s.bob.want(1, "force-unlock", "-force", "-no-color", id), "403") // bob may not
	s.op.want(0, "force-unlock", "-force", "-no-color", id)
	s.bob.want(0, apply("next")...)
	open()
	if err := late.signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	text := late.ended(1)
	contains(t, text, "409")
	if !exists(filepath.Join(s.ann.dir, "errored.tfstate")) {
		t.Errorf("the late apply does not keep its state\n%s", text)
	}
	contains(t, s.bob.want(0, "output", "-no-color", "value"), "next")
	log, err := os.ReadFile(filepath.Join(s.dir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(log), `"event":"broken","who":"op"`, "force-unlock of the Terraform lock "+id)
}

// TestTerraformOutlivesAServer: a server that is killed under an apply, and started again,
// keeps its lock, and takes its state.
func TestTerraformOutlivesAServer(t *testing.T) {
	t.Parallel()
	program := terraformProgram(t)
	s := startRedis(t)
	dir := t.TempDir()
	users := filepath.Join(dir, "users.json")
	token := strings.TrimSpace(fencelockCLI(t, s.url(), "serve", "token", "ann", "--may", "see,state", "--users", users).want(0).out.String())
	args := []string{"--users", users, "--terraform", newStates(t, dir)}
	server, url := serving(t, s, args...)
	one, two := newStack(t, program, url, "ann", token), newStack(t, program, url, "ann", token)
	gate := filepath.Join(dir, "gate")
	apply1 := one.start(apply("first", "-var", "until="+gate)...)
	until(t, "the apply is at work", func() bool { return exists(gate + ".waits") })
	c := s.client(t, nil)
	token1 := holderOf(t, c, "tf/prod")
	_ = server.cmd.Process.Kill()
	<-server.done
	serving(t, s, append(args, "--listen", strings.TrimPrefix(url, "http://"))...)
	contains(t, two.want(1, apply("second")...), "Error acquiring the state lock")
	if got := holderOf(t, c, "tf/prod"); got != token1 {
		t.Errorf("the lock of the store has token %v, before %v", got, token1)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	apply1.ended(0)
	two.want(0, apply("second")...)
	if got := holderOf(t, c, "tf/prod"); got != 0 {
		t.Errorf("the lock of the store is held with token %v", got)
	}
}

// holderOf is the token of the holder of a lock, 0 if it is free.
func holderOf(t *testing.T, c *fencelock.Client, name string) fencelock.Token {
	t.Helper()
	st, err := c.Inspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Holders) == 0 {
		return 0
	}
	return st.Holders[0].Token
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
