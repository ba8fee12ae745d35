// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"strings"
	"testing"
)

// TestWaitCoversAStoreThatStarts: a job that starts while its store is away runs as soon
// as the store is back, within --wait. The store is back once run has written that it
// tries again.
func TestWaitCoversAStoreThatStarts(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	for _, tt := range []struct {
		name string
		args []string
	}{
		{"with --wait", []string{"run", "a", "--wait", "1m", "--", "echo", "ran"}},
		{"for one TTL without", []string{"run", "b", "--ttl", "1m", "--", "echo", "ran"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			link := newProxy(t, "127.0.0.1:1") // nothing listens there
			p := begin(t, "redis://"+link.addr, append([]string{"--timeout", "2s"}, tt.args...)...)
			until(t, "it tries again", func() bool { return strings.Contains(p.err.String(), "trying again for 1m00s") })
			link.Retarget(s.addr)
			p.want(0)
		})
	}
}

// TestStoreThatStaysAway: the wait for a store ends with --wait, --try does not wait, and
// both give the reason.
func TestStoreThatStaysAway(t *testing.T) {
	t.Parallel()
	const away = "redis://127.0.0.1:1"
	p := fencelockCLI(t, away, "run", "a", "--wait", "4s", "--", "true").want(exitUnavailable)
	contains(t, p.err.String(), "connection refused", "tried for 4.0s")
	p = fencelockCLI(t, away, "run", "a", "--ttl", "500ms", "--", "true").want(exitUnavailable)
	contains(t, p.err.String(), "tried for 500ms")
	p = fencelockCLI(t, away, "run", "a", "--try", "--", "true").want(exitUnavailable)
	if strings.Contains(p.err.String(), "trying again") {
		t.Errorf("--try waited: %s", p.err.String())
	}
}

// TestUnreachableStoreNamesTheNextStep: the error says what to do, which store was tried and
// where the user chose it, on every kind of server, without a password.
func TestUnreachableStoreNamesTheNextStep(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, url, command, shown string }{
		{"redis", "redis://127.0.0.1:1", "ls", "redis://127.0.0.1:1"},
		{"while it waits", "redis://127.0.0.1:1", "run a --wait 1s -- true", "redis://127.0.0.1:1"},
		{"agent", "redis://127.0.0.1:1", "acquire a --try", "redis://127.0.0.1:1"},
		{"doctor", "redis://127.0.0.1:1", "doctor", "redis://127.0.0.1:1"},
		{"etcd", "etcd://127.0.0.1:1", "ls", "etcd://127.0.0.1:1"},
		{"quorum", "quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "ls", "quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"},
		{"zk", "zk://127.0.0.1:1", "ls", "zk://127.0.0.1:1"},
		{"memcached", "memcached://127.0.0.1:1", "ls", "memcached://127.0.0.1:1"},
		{"postgres", "postgres://ann:Secret9@127.0.0.1:1/x", "ls", "postgres://…"},
		{"mysql", "mysql://ann:Secret9@127.0.0.1:1/x", "ls", "mysql://…"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := fencelockCLI(t, tt.url, strings.Fields(tt.command)...).want(exitUnavailable)
			contains(t, p.err.String(), "127.0.0.1:1", "start it, or check host and port. The store is "+tt.shown+", from FENCELOCK_STORE; --store URL names another")
			if strings.Contains(p.err.String(), "Secret9") || strings.Count(p.err.String(), "start it") != 1 {
				t.Error(p.err.String())
			}
		})
	}
	contains(t, fencelockCLI(t, "", "ls", "--store", "redis://127.0.0.1:1").want(exitUnavailable).err.String(), ", from --store;")
	contains(t, fencelockCLI(t, "", "serve", "health", "http://127.0.0.1:1").want(exitUnavailable).err.String(), "is fencelock serve started?")
	if p := fencelockCLI(t, "redis://127.0.0.1:1", "serve", "health", "http://127.0.0.1:1"); strings.Contains(p.err.String(), "The store is") {
		t.Errorf("the store is not what refused: %s", p.err.String())
	}
}

// TestUnknownWordsHaveASuggestion: a misspelled command or scheme is answered with the one
// that was probably meant, and a URL whose scheme could be a secret is not shown.
func TestUnknownWordsHaveASuggestion(t *testing.T) {
	for _, tt := range []struct{ url, command, want string }{
		{"mem://", "help stroes", `no help on "stroes" (did you mean "stores"?)`},
		{"mem://", "ls --older 1h", `unknown flag --older (did you mean "--older-than"?)`},
		{"mem://", "run a --resaon x -- true", `unknown flag --resaon (did you mean "--reason"?)`},
		{"mem://", "--storee x ls", `unknown flag --storee (did you mean "--store"?)`},
		{"mem://", "ls -o jsn", `-o jsn (did you mean "json"?)`},
		{"mem://?max_tll=1m", "ls", "did you mean max_ttl?"},
		{"mem://", "lss", `unknown command "lss" (did you mean "ls"?)`},
		{"reddis://h", "ls", `unknown scheme reddis:// in the store's URL (did you mean "redis://"?)`},
		{"localhost:6379", "ls", "has no scheme; write it as redis://"},
		{"user:Secret9@h?x=://", "ls", "does not begin with a known scheme"},
	} {
		p := fencelockCLI(t, tt.url, strings.Fields(tt.command)...).want(exitUsage)
		contains(t, p.err.String(), tt.want)
		if strings.Contains(p.err.String(), "Secret9") {
			t.Errorf("%s shows a secret: %s", tt.url, p.err.String())
		}
	}
}

// TestWrongValuesNameTheFlag: the error says what the flag takes, without words of Go.
func TestWrongValuesNameTheFlag(t *testing.T) {
	for command, want := range map[string]string{
		"run a --ttl 5 -- true":                "--ttl 5: it takes a time with its unit, such as 500ms, 30s or 1h30m",
		"break a --token abc --reason x":       "--token abc: it takes a whole number",
		"run a --try=maybe -- true":            "--try maybe: it takes true or false",
		"run a --permits 0 -- true":            "--permits 0: it takes a positive number",
		"run a --permits 2 --shared -- true":   "--shared and --permits contradict each other",
		"run a --try --wait 1s -- true":        "--try and --wait contradict each other",
		"run a --once-per 0s -- true":          "--once-per 0s: it takes a positive time",
		"run a --once-per 1h --shared -- true": "--once-per does not go with",
		"run a --retry-failed -- true":         "need --once-per",
		"acquire a --max 0s":                   "--max 0s: it takes a positive time",
		"acquire a --signal 15":                "--signal needs --while",
		"acquire a --signal -1 --while 1":      "--signal -1: it takes the number of a signal",
		"acquire a --while -1":                 "--while -1: it takes the number of a process",
		"break":                                "force-unlock takes the name of a lock; no argument was given",
		"break a b":                            "force-unlock takes the name of a lock; 2 arguments were given",
		"why a b":                              "one LOCK at most",
		"doctor --only S1":                     "--only and --deep-ttl need --deep",
		"version a":                            "version takes no arguments; 1 argument was given",
		"run a true":                           "write the command after --",
	} {
		p := fencelockCLI(t, "mem://", strings.Fields(command)...).want(exitUsage)
		contains(t, p.err.String(), want)
		if strings.Contains(p.err.String(), "strconv") || strings.Contains(p.err.String(), "time:") {
			t.Errorf("%s: %s", command, p.err.String())
		}
	}
}

// TestQuorumNamesOnlyServersThatAreAway: a majority of the servers is down, and the command
// gives up. It does not report those that are up as away because it leaves.
func TestQuorumNamesOnlyServersThatAreAway(t *testing.T) {
	t.Parallel()
	var addrs []string
	for i := range 5 {
		s := startRedis(t)
		addrs = append(addrs, s.addr)
		if i > 1 {
			s.Kill()
		}
	}
	url := "quorum://" + strings.Join(addrs, ",")
	for range 2 {
		p := fencelockCLI(t, url, "run", "a", "--ttl", "4s", "--", "true").want(69)
		for _, up := range addrs[:2] {
			// On a busy machine one may be away for a moment; what is reported at the end is not taken back.
			if _, after, away := strings.Cut(p.err.String(), up+": warning: away"); away && !strings.Contains(after, up+": note: back") {
				t.Errorf("%s is up: %s", up, p.err.String())
			}
		}
	}
}
