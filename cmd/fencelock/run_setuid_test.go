// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestRunSetUserID: a set-user-ID program does not get the kernel's signal for the death
// of its parent, and is killed anyway.
func TestRunSetUserID(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	program := setUserID(t)
	for _, what := range []string{"holder killed", "supervisor killed", "lock broken"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := begin(t, s.url(), "run", what, "--ttl", "10s", "--", "sh", "-c", `echo $$ >`+dir+`/self; exec `+program+` 300`)
			self := pidIn(t, dir+"/self")
			until(t, "it runs as another user", func() bool {
				exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", self))
				return exe == program
			})
			switch what {
			case "holder killed":
				_ = p.cmd.Process.Kill()
			case "supervisor killed":
				_ = syscall.Kill(parent(t, self), syscall.SIGKILL)
				p.wantWithoutSupervisor()
			case "lock broken":
				st, err := c.Inspect(t.Context(), what)
				if err == nil && len(st.Holders) == 1 {
					_, err = c.ForceUnlock(t.Context(), what, st.Holders[0].Token)
				}
				if err != nil {
					t.Fatalf("%+v, %v", st, err)
				}
				p.want(exitLost)
			}
			wantDead(t, map[string]int{"self": self})
		})
	}
}

// setUserID makes a "sleep" that runs as another user than its starter.
func setUserID(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	program := filepath.Join(t.TempDir(), "sleep")
	copyProgram(t, path, program)
	err = os.Chown(program, otherUser, otherUser)
	if err == nil {
		err = os.Chmod(program, 0o755|os.ModeSetuid)
	}
	var fs syscall.Statfs_t
	if err != nil || syscall.Statfs(program, &fs) != nil || fs.Flags&syscall.MS_NOSUID != 0 {
		t.Skipf("no set-user-ID programs here (%v); as root: go test ./cmd/fencelock -run TestRunSetUserID", err)
	}
	return program
}
