// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/drivertest"
	"github.com/fencelock/fencelock/redisstore"
	"github.com/fencelock/fencelock/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

const secret = "s3cret"

// aclLine is the line of docs/redis.md.
func aclLine(t testing.TB) string {
	t.Helper()
	client := redis.NewClient(&redis.Options{})
	defer client.Close() // it never connected
	store, err := redisstore.New(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	return store.ACL("locks")
}

// startWithUser starts a server with the user that the store asks for, with or
// without more rules, and returns how to log in as it.
func startWithUser(t testing.TB, rules ...string) (*redistest.Server, login) {
	t.Helper()
	args := append([]string{"--user"}, strings.Fields(aclLine(t)+" >"+secret)...)
	server := redistest.Start(t, append(args, rules...)...)
	return server, login{addr: server.Addr, user: "locks", pass: secret}
}

// TestACLSuffices: a user with the line of Store.ACL can do everything. It runs
// one case of each clause.
func TestACLSuffices(t *testing.T) {
	t.Parallel()
	var cases []drivertest.Case
	for _, c := range drivertest.Cases() {
		if len(cases) == 0 || cases[len(cases)-1].Clause.ID != c.Clause.ID {
			cases = append(cases, c)
		}
	}
	for _, lib := range libraries {
		t.Run(lib.name, func(t *testing.T) {
			server, to := startWithUser(t)
			use(t, lib.open(t, to, nil), lib.open(t, to, nil))
			if findings, err := lib.open(t, to, nil).Check(t.Context()); err != nil || len(findings) != 0 {
				t.Errorf("check: got %v, %v", findings, err)
			}
			opts := redisstore.Options{Namespace: "fencelock"} // others are forbidden
			rigs := []*rig{{lib: lib, opts: opts, server: server, login: to}}
			for range 2 {
				server, to := startWithUser(t)
				rigs = append(rigs, &rig{lib: lib, opts: opts, server: server, login: to})
			}
			conform(t, cases, rigs)
		})
	}
}

// TestACLAllowsNothingElse: the same user can do nothing with other keys and
// channels, and nothing that is not about locks with its own.
func TestACLAllowsNothingElse(t *testing.T) {
	t.Parallel()
	_, to := startWithUser(t)
	client := redis.NewClient(&redis.Options{Addr: to.addr, Username: to.user, Password: to.pass})
	defer client.Close()
	for _, command := range []string{
		"GET fencelock:x", "SET fencelock:x 1", "DEL fencelock:x", "EXPIRE fencelock:x 1", "HGETALL fencelock:x",
		"HGET other:x f", "HSET other:x f v", "HSET fencelockx f v", "RPUSH other:x v",
		"PUBLISH other:x m", "PUBLISH fencelockx m", "PUBSUB CHANNELS",
		"KEYS *", "SCAN 0", "FLUSHALL", "FLUSHDB", "CONFIG GET maxmemory", "CONFIG SET maxmemory 1",
		"ACL LIST", "ACL SETUSER locks allcommands", "CLIENT LIST", "CLIENT KILL TYPE pubsub",
		"SCRIPT FLUSH", "SHUTDOWN NOSAVE", "REPLICAOF NO ONE", "SAVE", "MONITOR",
	} {
		err := client.Do(t.Context(), words(command)...).Err()
		if err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
			t.Errorf("%s: got %v, want it refused", command, err)
		}
	}
	inScript := `return redis.call(unpack(ARGV))`
	for _, command := range []string{"GET fencelock:x", "HSET other:x f v", "FLUSHALL", "PUBLISH other:x m"} {
		args := append([]any{"EVAL", inScript, "0"}, words(command)...)
		if err := client.Do(t.Context(), args...).Err(); err == nil || !strings.Contains(err.Error(), "The user executing the script can't") {
			t.Errorf("%s in a script: got %v, want it refused", command, err)
		}
	}
}

func words(command string) []any {
	var all []any
	for _, w := range strings.Fields(command) {
		all = append(all, w)
	}
	return all
}

// TestACLMissing: what a user lacks is told, by the call and by Check.
func TestACLMissing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ rule, code string }{
		{"-info", "info-forbidden"},
		{"-hset", "commands-forbidden"},
		{"resetkeys", "commands-forbidden"},
		{"-eval", "permissions-unchecked"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			_, to := startWithUser(t, tt.rule)
			for _, lib := range libraries {
				c := lib.open(t, to, nil)
				if _, err := c.Inspect(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "(*Store).ACL prints the line") {
					t.Errorf("%s: inspect: got %v, want it refused with what to do", lib.name, err)
				}
				findings, err := c.Check(t.Context())
				if err != nil || !slices.Contains(codes(findings), tt.code) {
					t.Errorf("%s: check: got %v, %v, want %s", lib.name, findings, err, tt.code)
				}
			}
		})
	}
}

// TestACLDocumented: the document shows the line as it is.
func TestACLDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/redis.md")
	if os.IsNotExist(err) {
		t.Skip("the documents are in the repository, not in the module")
	}
	if err != nil {
		t.Fatal(err)
	}
	joined := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\\\n", " ")), " ")
	if want := "ACL SETUSER " + aclLine(t); !strings.Contains(joined, want) {
		t.Errorf("docs/redis.md does not show this line:\n%s", want)
	}
}

func codes(findings []redisstore.Finding) []string {
	var all []string
	for _, f := range findings {
		all = append(all, f.Code)
	}
	return all
}
