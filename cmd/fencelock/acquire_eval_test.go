// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// scriptIn runs a script in a shell; $F is the program.
func scriptIn(t testing.TB, shell, store, text string) *process {
	t.Helper()
	found, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("%s is not installed; on Debian: apt-get install %s", shell, shell)
	}
	path, err := binary()
	must.OK(t, err)
	return beginWith(t, store, func(c *exec.Cmd) {
		c.Path, c.Args = found, []string{shell, "-c", text}
		c.Env = append(c.Env, "F="+path)
	})
}

// TestFailedAcquireEndsTheScript: eval of nothing succeeds, so a failed acquire that
// prints nothing lets the script work without the lock.
func TestFailedAcquireEndsTheScript(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	if _, err := s.client(t, nil).Mutex("taken").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	const away = "redis://127.0.0.1:1"
	for _, shell := range []string{"bash", "dash"} {
		for _, c := range []struct {
			name, store, args string
			code              int
		}{
			{"busy", s.url(), "taken --try", exitNotAcquired},
			{"waited", s.url(), "taken --wait 5s", exitNotAcquired},
			{"unavailable", away, "free --timeout 1s", exitUnavailable},
			{"wrong URL", "nonsense://", "free", exitUsage},
			{"no lock", s.url(), "", exitUsage},
			{"unknown flag", s.url(), "free --nonsense", exitUsage},
			{"unknown format", s.url(), "free -o xml", exitUsage},
			{"wrong time", s.url(), "free --max -1s", exitUsage},
		} {
			t.Run(shell+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				acquire := `eval "$($F acquire ` + c.args + ` --while $$)"`
				p := scriptIn(t, shell, c.store, "set -e\n"+acquire+"\necho works").want(c.code)
				p2 := scriptIn(t, shell, c.store, acquire+" || exit\necho works").want(c.code)
				for _, p := range []*process{p, p2} {
					if out := p.out.String(); out != "" {
						t.Errorf("the script went on: %s", out)
					}
					contains(t, p.err.String(), "fencelock: ")
				}
				// A script that checks neither finds no variables, and renew fails.
				p = scriptIn(t, shell, c.store, `FENCELOCK_NAME=outer FENCELOCK_TOKEN=1 FENCELOCK_OWNER=ann FENCELOCK_HANDLE=/x
					export FENCELOCK_NAME FENCELOCK_TOKEN FENCELOCK_OWNER FENCELOCK_HANDLE
					`+acquire+`; echo "eval $?"; env | grep -E 'FENCELOCK_(NAME|TOKEN|OWNER|HANDLE)='; $F renew; echo "renew $?"`).want(0)
				if got, want := p.out.String(), fmt.Sprintf("eval %d\nrenew %d\n", c.code, exitUsage); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	}
}

// TestFailedAcquireInsideALock: what asks for a lock inside another and fails must not
// renew or release the outer one in its stead.
func TestFailedAcquireInsideALock(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	c := s.client(t, nil)
	if _, err := c.Mutex("taken").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, shell := range []string{"bash", "dash"} {
		p := scriptIn(t, shell, s.url(), `eval "$($F acquire outer --while $$)" || exit
			outer=$FENCELOCK_HANDLE
			eval "$($F acquire taken --try --while $$)"
			$F renew && echo "renewed another lock"
			$F release && echo "released another lock"
			$F why outer
			$F release --handle "$outer"`).want(0)
		contains(t, p.out.String(), "outer: held by 1")
		if strings.Contains(p.out.String(), "another lock") {
			t.Errorf("%s: %s", shell, p.out.String())
		}
	}
}

// TestFailedAcquireInJSON: a program reads the exit code, not shell text.
func TestFailedAcquireInJSON(t *testing.T) {
	t.Parallel()
	if p := fencelockCLI(t, "redis://127.0.0.1:1", "acquire", "a", "--timeout", "1s", "-o", "json").want(exitUnavailable); p.out.String() != "" {
		t.Errorf("stdout has %q", p.out.String())
	}
}
