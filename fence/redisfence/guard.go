// SPDX-License-Identifier: Apache-2.0

package redisfence

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
)

//go:embed guard.lua
var guardText string

// Client is what a guard needs of go-redis: every client and the cluster client
// have it. A pipeline has it too and does not suit: it answers too late.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Script is a Lua script that a guard runs if the token is admitted. Make it
// once and share it.
type Script struct{ text, sha string }

// NewScript returns a script with that body. It sees its own keys and arguments
// as KEYS and ARGV, from the first on, and returns its result.
func NewScript(body string) *Script {
	text := strings.Replace(guardText, "--BODY", body, 1)
	return &Script{text, redis.NewScript(text).Hash()}
}

// once is a command that go-redis does not send again when it may have arrived.
// Sent again, it could meet the fence of a holder that came in between: what was
// done the first time would be reported as refused.
type once struct{ *redis.Cmd }

// NoRetry is what go-redis asks. Where the server itself said that it did nothing
// and that another node would, the command is still sent there.
func (once) NoRetry() bool { return true }

// run lets the server run the script, by its text if it does not know it yet.
func (s *Script) run(ctx context.Context, client Client, keys []string, args []any) ([]any, error) {
	var reply *redis.Cmd
	for _, how := range [][2]any{{"evalsha", s.sha}, {"eval", s.text}} {
		all := []any{how[0], how[1], len(keys)}
		for _, k := range keys {
			all = append(all, k)
		}
		reply = redis.NewCmd(ctx, append(all, args...)...)
		if err := client.Process(ctx, once{reply}); err == nil || !redis.HasErrorPrefix(err, "NOSCRIPT") {
			break
		}
	}
	return reply.Slice()
}

var raise = NewScript("return 1")

// Guard guards keys in one slot by the token of one lock. It is safe for
// concurrent use and needs no closing.
type Guard struct {
	client Client
	tag    string
	fence  string
	lock   string
}

// New returns a guard for a key and all others in its slot. lock is the name of
// the lock whose token is checked; every process must name the same for a key, because
// the fence keeps the token only. It does no I/O.
func New(client Client, key, lock string) (*Guard, error) {
	if client == nil || lock == "" {
		return nil, errors.New("redisfence: a guard needs a client and the name of a lock")
	}
	tag, tagged, err := hashTag(key)
	if err != nil {
		return nil, err
	}
	g := &Guard{client: client, tag: tag, lock: lock, fence: key + ":fence"}
	if !tagged {
		g.fence = "{" + key + "}:fence"
	}
	return g, nil
}

// hashTag returns the part of a key that decides on its slot: what is between
// the first { and the next }, or else all of it. A key with braces that are no
// hash tag cannot be put between braces, so the fence would be in another slot.
func hashTag(key string) (tag string, tagged bool, err error) {
	before, rest, open := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(rest, "}")
	switch {
	case open && closed && tag != "":
		return tag, true, nil
	case key == "" || open || strings.Contains(before, "}"):
		return "", false, fmt.Errorf("redisfence: no key can be in the slot of %q; use a key without braces or with a hash tag: {tag}rest", key)
	}
	return key, false, nil
}

// Raise raises the fence to the token that ctx carries. Do that before reading,
// unless a script reads, and with the token that Client.ForceUnlock returned, to fence
// a broken holder off. It returns an error that wraps fence.ErrStale if a newer
// token was there.
func (g *Guard) Raise(ctx context.Context) error {
	_, err := g.Run(ctx, raise, nil)
	return err
}

// Run raises the fence to the token that ctx carries, runs the script and
// returns its result, nil for a Lua nil or false, all in one step of the server.
// An error that the script returns is an error here. The keys must have the hash
// tag of the guard's key.
//
// It returns an error that wraps fence.ErrStale if it was refused: then the
// script was not run. Any other error of the server or the connection leaves the
// outcome unknown. Whatever the client's MaxRetries, a script that may have
// arrived is not sent again: call Run again with the same token and look.
func (g *Guard) Run(ctx context.Context, s *Script, keys []string, args ...any) (any, error) {
	m, err := fence.FromContext(ctx, g.lock)
	if err != nil {
		return nil, err
	}
	all := []string{g.fence}
	for _, k := range keys {
		if tag, _, err := hashTag(k); err != nil || tag != g.tag {
			return nil, fmt.Errorf("redisfence: the key %q is not in the slot of the fence %q; give it the hash tag {%s}", k, g.fence, g.tag)
		}
		all = append(all, k)
	}
	argv := append([]any{m.Token.String(), m.Holder}, args...)
	reply, err := s.run(ctx, g.client, all, argv)
	if err != nil {
		return nil, fmt.Errorf("redisfence: %w", err)
	}
	return result(reply, m)
}

// result reads what the script said: one and its result, or zero and the newer
// mark.
func result(reply []any, given fence.Mark) (any, error) {
	if len(reply) == 0 {
		return nil, errors.New("redisfence: the server's answer is empty")
	}
	if reply[0] == int64(1) {
		if len(reply) == 1 {
			return nil, nil
		}
		if err, failed := reply[1].(error); failed { // returned by the script, from pcall for example
			return nil, fmt.Errorf("redisfence: the script: %w", err)
		}
		return reply[1], nil
	}
	stale := &fence.StaleError{Given: given}
	if len(reply) == 3 {
		token, err := strconv.ParseInt(fmt.Sprint(reply[1]), 10, 64)
		if err == nil {
			stale.Newer = fence.Mark{Lock: given.Lock, Token: fencelock.Token(token), Holder: fmt.Sprint(reply[2])}
		}
	}
	return nil, stale
}
