// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

const secret = "s3cret"

// aclLine is the line of docs/redis.md.
func aclLine(t testing.TB) string {
	t.Helper()
	client := redis.NewClient(&redis.Options{})
	defer client.Close() // it never connected
	store, err := redisstore.New(client, nil)
	must.OK(t, err)
	return store.ACL("locks")
}

// startWithUser starts a server with the user that the store asks for, with or
// without more rules, and returns how to log in as it.
func startWithUser(t testing.TB, flavor redistest.Flavor, rules ...string) (*redistest.Server, login) {
	t.Helper()
	args := append([]string{"--user"}, strings.Fields(aclLine(t)+" >"+secret)...)
	server := flavor.Start(t, append(args, rules...)...)
	return server, login{Addr: server.Addr, User: "locks", Pass: secret}
}

// TestACLAllowsNothingElse: the same user can do nothing with other keys and
// channels, and nothing that is not about locks with its own.
func TestACLAllowsNothingElse(t *testing.T) {
	t.Parallel()
	for _, flavor := range redistest.Flavors {
		t.Run(string(flavor), func(t *testing.T) {
			_, to := startWithUser(t, flavor)
			client := redis.NewClient(&redis.Options{Addr: to.Addr, Username: to.User, Password: to.Pass})
			defer client.Close()
			for _, command := range forbidden {
				err := client.Do(t.Context(), words(command)...).Err()
				if err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
					t.Errorf("%s: got %v, want it refused", command, err)
				}
			}
			inScript := `return redis.call(unpack(ARGV))`
			for _, command := range []string{"GET fencelock:{fencelock:x}", "HSET other:x f v", "FLUSHALL", "PUBLISH other:x m"} {
				args := append([]any{"EVAL", inScript, "0"}, words(command)...)
				if err := client.Do(t.Context(), args...).Err(); err == nil || !strings.Contains(err.Error(), "ACL failure in script") &&
					!strings.Contains(err.Error(), "The user executing the script can't") {
					t.Errorf("%s in a script: got %v, want it refused", command, err)
				}
			}
		})
	}
}

// forbidden is what a user of the store may not do.
var forbidden = []string{
	"GET fencelock:{fencelock:x}", "SET fencelock:{fencelock:x} 1", "DEL fencelock:{fencelock:x}", "EXPIRE fencelock:{fencelock:x} 1", "HVALS fencelock:{fencelock:x}",
	"HGET other:x f", "HSET other:x f v", "HSET fencelockx f v", "RPUSH other:x v",
	"PUBLISH other:x m", "PUBLISH fencelockx m", "PUBSUB CHANNELS",
	"KEYS *", "FLUSHALL", "FLUSHDB", "CONFIG GET maxmemory", "CONFIG SET maxmemory 1",
	"ACL LIST", "ACL SETUSER locks allcommands", "CLIENT LIST", "CLIENT KILL TYPE pubsub",
	"SCRIPT FLUSH", "SHUTDOWN NOSAVE", "REPLICAOF NO ONE", "SAVE", "MONITOR",
}

func words(command string) []any {
	var all []any
	for _, w := range strings.Fields(command) {
		all = append(all, w)
	}
	return all
}

// TestACLAllowsNoOtherCommand asks the server about every command that it has, for a user with
// the line of one server and with that of a cluster.
func TestACLAllowsNoOtherCommand(t *testing.T) {
	t.Parallel()
	for _, flavor := range redistest.Flavors {
		for name, line := range map[string]string{"one": aclLine(t), "cluster": clusterACL(t)} {
			t.Run(string(flavor)+"/"+name, func(t *testing.T) {
				flavor.Need(t)
				server := flavor.Start(t)
				must.OK(t, server.Do(words("ACL SETUSER "+line)...).Err())
				var rules, granted []string
				for _, w := range strings.Fields(line) {
					if rule, ok := strings.CutPrefix(w, "+"); ok {
						rules = append(rules, rule)
					}
				}
				for _, c := range commands(t, server) {
					container, _, _ := strings.Cut(c.name, "|")
					// Commands with this flag need no login: AUTH, HELLO, QUIT.
					wanted := c.open || slices.Contains(rules, c.name) || slices.Contains(rules, container)
					allowed := allows(t, server, c, "fencelock:{fencelock:x}")
					if allowed != wanted {
						t.Errorf("%s: allowed is %t, want %t", c.name, allowed, wanted)
					}
					if allowed {
						granted = append(granted, c.name)
					}
					if allowed && c.keyed && allows(t, server, c, "other:x") {
						t.Errorf("%s is allowed with a key or channel of others", c.name)
					}
				}
				for _, rule := range rules {
					if !slices.Contains(granted, rule) {
						t.Errorf("the line has %s, which the server does not have", rule)
					}
				}
			})
		}
	}
}

// command is a command of a server.
type command struct {
	name  string // with its container, if it is a subcommand: "script|load"
	words int    // at least, the name included
	keyed bool   // its first argument is a key or a channel that it must be allowed to use
	open  bool   // needs no login
}

// commands are all that a server has.
func commands(t *testing.T, server *redistest.Server) (all []command) {
	t.Helper()
	list, err := server.Do("COMMAND").Slice()
	if err != nil || len(list) < 100 {
		t.Fatalf("COMMAND: %d commands, %v", len(list), err)
	}
	var add func(list []any)
	add = func(list []any) {
		for _, entry := range list {
			f := entry.([]any)
			flags := f[2].([]any)
			c := command{name: f[0].(string), words: int(f[1].(int64)), open: slices.Contains(flags, any("no_auth"))}
			c.words = max(c.words, -c.words)
			c.keyed = (f[3].(int64) == 1 || slices.Contains(flags, any("pubsub"))) &&
				!strings.HasSuffix(c.name, "unsubscribe") // unsubscribing needs no permission
			below := f[9].([]any)
			if len(below) == 0 || c.words == 1 { // COMMAND can be called without a subcommand
				all = append(all, c)
			}
			add(below)
		}
	}
	add(list)
	return all
}

// allows reports whether the user may run a command. The argument is repeated as often as
// the command needs.
func allows(t *testing.T, server *redistest.Server, c command, argument string) bool {
	t.Helper()
	args := []any{"ACL", "DRYRUN", "locks"}
	for _, w := range strings.Split(c.name, "|") {
		args = append(args, w)
	}
	for len(args)-3 < c.words {
		args = append(args, argument)
	}
	reply, err := server.Do(args...).Text()
	if err != nil {
		t.Errorf("%s could not be asked about: %v", c.name, err)
	}
	return !strings.Contains(reply, "no permissions")
}

// TestACLMissing: the call and Check report the permission that a user lacks. The command
// in the error gives it to the user, who keeps every other permission.
func TestACLMissing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ rule, code string }{
		{"-info", "info-forbidden"},
		{"-hset", "commands-forbidden"},
		{"resetkeys", "commands-forbidden"},
		{"-eval", "permissions-unchecked"},
		{"allkeys allchannels +@all -hset -publish", "commands-forbidden"}, // a user of other programs, too
	} {
		t.Run(tt.rule, func(t *testing.T) {
			server, to := startWithUser(t, redistest.Redis, strings.Fields(tt.rule)...)
			before := may(t, server, "GET", "other:x")
			var message string
			for _, lib := range libraries {
				c := lib.open(t, to, nil)
				err := c.SetLimit(t.Context(), "x", 0)
				if err == nil || !strings.Contains(err.Error(), "; add what the store needs: ACL SETUSER USER '(") {
					t.Fatalf("%s: set a limit: got %v, want it refused with what to do", lib.name, err)
				}
				message = err.Error()
				findings, err := c.Check(t.Context())
				if err != nil || !slices.Contains(codes(findings), tt.code) {
					t.Errorf("%s: check: got %v, %v, want %s", lib.name, findings, err, tt.code)
				}
			}
			obey(t, server, message)
			for _, lib := range libraries {
				c := lib.open(t, to, nil)
				if err := c.SetLimit(t.Context(), "x", 0); err != nil {
					t.Errorf("%s: set a limit after the command in the error: %v", lib.name, err)
				}
				if findings, err := c.Check(t.Context()); err != nil || len(findings) > 0 {
					t.Errorf("%s: check after the command in the error: got %v, %v", lib.name, findings, err)
				}
			}
			if after := may(t, server, "GET", "other:x"); after != before {
				t.Errorf("the command in the error changed what else the user may do: before %q, after %q", before, after)
			}
		})
	}
}

// obey runs the ACL command of an error for the user of startWithUser.
func obey(t *testing.T, server *redistest.Server, message string) {
	t.Helper()
	_, command, _ := strings.Cut(message, "ACL SETUSER USER '")
	selector, _, ok := strings.Cut(command, "'")
	if !ok {
		t.Fatalf("no command in %q", message)
	}
	if err := server.Do("ACL", "SETUSER", "locks", selector).Err(); err != nil {
		t.Fatalf("%s: %v", selector, err)
	}
}

// may returns what the server answers about a command of the user of startWithUser.
func may(t *testing.T, server *redistest.Server, command ...any) string {
	t.Helper()
	reply, err := server.Do(append([]any{"ACL", "DRYRUN", "locks"}, command...)...).Text()
	must.OK(t, err)
	return reply
}

// TestACLDocumented: the document shows the line as it is.
func TestACLDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/redis.md")
	if os.IsNotExist(err) {
		t.Skip("the documents are in the repository, not in the module")
	}
	must.OK(t, err)
	joined := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\\\n", " ")), " ")
	if want := "ACL SETUSER " + aclLine(t); !strings.Contains(joined, want) {
		t.Errorf("docs/redis.md does not show this line:\n%s", want)
	}
}

func codes(findings []driver.Finding) []string {
	var all []string
	for _, f := range findings {
		all = append(all, f.Code)
	}
	return all
}
