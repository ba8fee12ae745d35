// SPDX-License-Identifier: Apache-2.0

package native

import (
	"strings"
)

// need is a command that the store uses, with arguments as it uses them.
type need struct {
	rule string // as in an ACL: "hget", "script|load"
	args []string
}

// keyCommands are used on keys of the namespace, by scripts and in transactions. A test
// compares them with the scripts.
var keyCommands = []string{
	"hdel", "hexists", "hget", "hgetall", "hincrby", "hmget", "hrandfield", "hscan", "hset", "hsetnx",
	"lindex", "llen", "lmove", "lpop", "lpos", "lpush", "lrange", "lrem", "lset", "ltrim", "rpush",
	"zadd", "zcount", "zrangebyscore", "zrem", "zremrangebyscore", "zscore",
}

// needs returns every command that the store uses. Clusters push over sharded
// channels.
func (s *Store) needs() []need {
	key := s.opts.Namespace + ":{" + s.opts.Namespace + ":x}"
	channel := key + ":p:x"
	all := []need{
		{"eval", []string{"EVAL", "return 1", "1", key}},
		{"evalsha", []string{"EVALSHA", "x", "1", key}},
		{"script|load", []string{"SCRIPT", "LOAD", "return 1"}},
		{"script|exists", []string{"SCRIPT", "EXISTS", "x"}},
		{"multi", []string{"MULTI"}}, {"exec", []string{"EXEC"}},
	}
	for _, c := range keyCommands {
		args := []string{strings.ToUpper(c), key, "0", "0"}
		if c == "lmove" {
			args = []string{"LMOVE", key, key, "LEFT", "RIGHT"}
		}
		all = append(all, need{c, args})
	}
	all = append(all, need{"scan", []string{"SCAN", "0"}}, need{"info", []string{"INFO"}}, need{"time", []string{"TIME"}}, need{"ping", []string{"PING"}})
	prefix := ""
	if s.client.Sharded() {
		prefix = "s"
		// A cluster client asks where the slots are, rueidis in two ways by the
		// server's version. go-redis asks what commands there are, and without an
		// answer it asks again with every call.
		all = append(all,
			need{"cluster|slots", []string{"CLUSTER", "SLOTS"}}, need{"cluster|shards", []string{"CLUSTER", "SHARDS"}},
			need{"command", []string{"COMMAND"}})
	}
	for _, c := range []string{"publish", "subscribe", "unsubscribe"} {
		args := []string{strings.ToUpper(prefix + c), channel}
		if c == "publish" {
			args = append(args, "x")
		}
		all = append(all, need{prefix + c, args})
	}
	return all
}

// ACL returns the line that lets a user of the server do what this store needs and
// nothing else: add a password (">secret") and give it to ACL SETUSER or to the
// server's configuration after "user".
//
// The user can read and write the keys of the namespace with the listed commands,
// scripts or not: a client with its password can break its locks. With SCAN it can read the
// names of all keys of the server, not their values.
func (s *Store) ACL(user string) string {
	keys := s.pattern()
	return user + " on resetkeys resetchannels ~" + keys + " &" + keys + " -@all" + s.allowed()
}

// pattern matches the keys and channels of the namespace.
func (s *Store) pattern() string {
	// The brace keeps out namespaces that begin with this one and a colon.
	return glob(s.opts.Namespace) + ":{" + glob(s.opts.Namespace) + ":*"
}

// allowed returns the rules that allow the commands that the store uses.
func (s *Store) allowed() string {
	var b strings.Builder
	for _, n := range s.needs() {
		b.WriteString(" +" + n.rule)
	}
	return b.String()
}

// grant returns the command that adds what the store needs to a user. It is a selector, so
// that a user of other programs, too, keeps its permissions; quoted, because a shell would
// otherwise run a part of it.
func (s *Store) grant() string {
	keys := s.pattern()
	return "ACL SETUSER USER '(~" + keys + " &" + keys + s.allowed() + ")'"
}

// glob makes a prefix literal in a pattern.
func glob(prefix string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(prefix)
}
