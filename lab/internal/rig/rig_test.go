// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

const role = "FENCELOCK_RIG_TEST"

// TestMain makes the test program a child that answers each line with the same line.
func TestMain(m *testing.M) {
	if os.Getenv(role) == "" {
		os.Exit(m.Run())
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(in.Text())
		switch in.Text() {
		case `"die"`:
			fmt.Fprintln(os.Stderr, "a reason")
			os.Exit(3)
		case `"chatter"`:
			for range 100_000 {
				fmt.Println(`"more"`)
			}
		case `"hang"`:
			time.Sleep(time.Minute)
		}
	}
}

func begin(t *testing.T, c Command) *Child {
	t.Helper()
	c.Name, c.Env = "echo", []string{role + "=1"}
	p, err := Start(t.Context(), c)
	must.OK(t, err)
	t.Cleanup(p.Kill)
	return p
}

// TestAsk: questions are answered until the input ends, and the child with it.
func TestAsk(t *testing.T) {
	t.Parallel()
	p := begin(t, Command{})
	for _, want := range []string{"one", "two"} {
		var got string
		must.OK(t, p.Ask(want, &got, time.Minute))
		if got != want {
			t.Errorf("asked %s, answered %s", want, got)
		}
	}
	must.OK(t, p.Finish(time.Minute))
}

// TestChildThatDies: the error has how it ended and what it wrote to standard error, and what it wrote before is read.
func TestChildThatDies(t *testing.T) {
	t.Parallel()
	p := begin(t, Command{})
	var got string
	must.OK(t, p.Ask("die", &got, time.Minute))
	err := p.Next(&got, time.Minute)
	if err == nil || err.Error() != "echo ended: exit status 3 a reason" {
		t.Errorf("got %v", err)
	}
}

// TestChildThatHangs: it is waited for as long as the caller wants, and killed.
func TestChildThatHangs(t *testing.T) {
	t.Parallel()
	p := begin(t, Command{})
	var got string
	must.OK(t, p.Ask("hang", &got, time.Minute))
	if err := p.Next(&got, 10*time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not answer within 10ms") {
		t.Errorf("got %v", err)
	}
	if err := p.Finish(10 * time.Millisecond); err == nil || err.Error() != "signal: killed" {
		t.Errorf("got %v", err)
	}
}

// TestAnswersThatNobodyReads do not keep a child alive.
func TestAnswersThatNobodyReads(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Child){"kill": (*Child).Kill, "finish": func(p *Child) { must.OK(t, p.Finish(time.Minute)) }} {
		p := begin(t, Command{})
		must.OK(t, p.Send("chatter"))
		end(p)
		select {
		case <-p.Over():
		default:
			t.Errorf("%s: it is not over", name)
		}
	}
}

// TestLines: all lines of a child are taken when it is over.
func TestLines(t *testing.T) {
	t.Parallel()
	n := 0
	p := begin(t, Command{Stderr: os.Stderr, Read: Lines(func(string) { n++ })})
	must.OK(t, p.Send("chatter"))
	must.OK(t, p.Finish(time.Minute))
	if n != 100_001 {
		t.Errorf("%d lines", n)
	}
}
