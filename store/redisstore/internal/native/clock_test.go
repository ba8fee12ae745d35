// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// clock makes the scripts of its clients see a time ahead of the server's, so that a test
// need not wait until a TTL has passed, and does not fail on a machine that stalls for a
// second. It changes only the one call in the scripts that reads the time. How far the clock
// is ahead is sent in the name of the key that never exists: scripts use the others by their places.
//
// Unlike pretense, clock keeps nothing on the server: there are several servers, and they
// lose their data.
type clock struct {
	ahead atomic.Int64 // µs
	plain atomic.Int64 // transactions and releases of plain commands

	mu  sync.Mutex
	sha map[string]string // of the store's text to that of ours
}

func newClock() *clock { return &clock{sha: map[string]string{}} }

// moment is how long elapse really takes: long enough for a push to arrive that the test
// does not wait for.
const moment = 5 * time.Millisecond

// elapse lets the scripts see that d has passed.
func (c *clock) elapse(d time.Duration) {
	c.ahead.Add(d.Microseconds())
	<-time.After(min(d, moment))
}

// now is what the scripts see, if the server's clock is that of the test.
func (c *clock) now() time.Time {
	return time.Now().Add(time.Duration(c.ahead.Load()) * time.Microsecond)
}

// shift changes the text of a script.
func (c *clock) shift(text string) string {
	const asks = "redis.call('TIME')"
	if strings.Count(text, "'TIME'") != strings.Count(text, asks) {
		panic("a script asks for the time in another way than " + asks)
	}
	ours := strings.ReplaceAll(text, asks,
		"(function() local t = redis.call('TIME') t[2] = t[2] + string.match(table.concat(KEYS, ' '), ':none:(%d+)') return t end)()")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sha[digest(text)] = digest(ours)
	return ours
}

// change makes a command that runs or loads a script use the changed script, and reports
// whether the command was one. keys is the index of the first key.
func (c *clock) change(words []string) (changed []string, is bool) {
	const keys = 3
	if len(words) == 3 && strings.EqualFold(words[0]+words[1], "scriptload") {
		return []string{words[0], words[1], c.shift(words[2])}, true
	}
	if len(words) == 3 && strings.EqualFold(words[0]+words[1], "scriptexists") {
		c.mu.Lock()
		defer c.mu.Unlock()
		if ours, known := c.sha[words[2]]; known {
			c.plain.Add(1)
			return []string{words[0], words[1], ours}, true
		}
		return words, true
	}
	if len(words) == 1 && strings.EqualFold(words[0], "time") { // of a keep-alive by plain commands
		return []string{"EVAL", fmt.Sprintf("local t = redis.call('TIME') return { t[1], tostring(t[2] + %d) }", c.ahead.Load()), "0"}, true
	}
	if len(words) <= keys {
		return nil, false
	}
	script := words[1]
	switch strings.ToLower(words[0]) {
	case "evalsha":
		c.mu.Lock()
		ours, known := c.sha[script]
		c.mu.Unlock()
		if !known {
			ours = strings.Repeat("0", 40) // the server must ask for the text
		}
		script = ours
	case "eval":
		script = c.shift(script)
	default:
		return nil, false
	}
	n, err := strconv.Atoi(words[2])
	if err != nil || n < 1 || len(words) < keys+n {
		return nil, false
	}
	changed = append(append(changed, words[0], script), words[2:]...)
	for i, key := range changed[:keys+n] {
		if strings.HasSuffix(key, ":none") {
			changed[i] = fmt.Sprintf("%s:%d", key, c.ahead.Load())
		}
	}
	return changed, true
}

// resent is a command of the store in its changed form.
type resent struct{ *redis.Cmd }

// NoRetry implements redis.Cmder: the store's own says the same.
func (resent) NoRetry() bool { return true }

// ProcessHook implements redis.Hook.
func (c *clock) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		var words []string
		for _, a := range cmd.Args() {
			words = append(words, fmt.Sprint(a))
		}
		changed, is := c.change(words)
		if !is {
			return next(ctx, cmd)
		}
		if cmd.Name() == "script" {
			cmd.Args()[2] = changed[2]
			return next(ctx, cmd)
		}
		args := make([]any, len(changed))
		for i, w := range changed {
			args[i] = w
		}
		ours := resent{redis.NewCmd(ctx, args...)}
		ours.SetFirstKeyPos(3)
		err := next(ctx, ours)
		cmd.(interface{ SetVal(any) }).SetVal(ours.Val())
		return err // Process keeps it in cmd
	}
}

// DialHook implements redis.Hook.
func (c *clock) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessPipelineHook implements redis.Hook. The store sends no scripts this way, but asks
// whether the server has one, and for the time.
func (c *clock) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		sent, times := slices.Clone(cmds), map[int]resent{}
		for i, cmd := range cmds {
			switch args := cmd.Args(); {
			case cmd.Name() == "script" && len(args) == 3:
				if changed, is := c.change([]string{"script", "exists", fmt.Sprint(args[2])}); is {
					args[2] = changed[2]
				}
			case cmd.Name() == "time":
				ours, _ := c.change([]string{"time"})
				times[i] = resent{redis.NewCmd(ctx, ours[0], ours[1], ours[2])}
				sent[i] = times[i]
			}
		}
		err := next(ctx, sent)
		for i, ours := range times {
			cmds[i].(interface{ SetVal(any) }).SetVal(ours.Val())
			cmds[i].SetErr(ours.Err())
		}
		return err
	}
}

// wrap is the same for rueidis.
func (c *clock) wrap(client rueidis.Client) rueidis.Client { return ahead{client, c} }

type ahead struct {
	rueidis.Client
	clock *clock
}

// Do implements rueidis.Client.
func (a ahead) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return a.Client.Do(ctx, a.clock.build(a.Client, cmd))
}

// DoMulti implements rueidis.Client.
func (a ahead) DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	return a.Client.DoMulti(ctx, a.clock.buildAll(a.Client, cmds)...)
}

// Dedicate implements rueidis.Client.
func (a ahead) Dedicate() (rueidis.DedicatedClient, func()) {
	conn, release := a.Client.Dedicate()
	return aheadAlone{conn, a.clock}, release
}

type aheadAlone struct {
	rueidis.DedicatedClient
	clock *clock
}

// Do implements rueidis.DedicatedClient.
func (a aheadAlone) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return a.DedicatedClient.Do(ctx, a.clock.build(a.DedicatedClient, cmd))
}

// DoMulti implements rueidis.DedicatedClient.
func (a aheadAlone) DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	return a.DedicatedClient.DoMulti(ctx, a.clock.buildAll(a.DedicatedClient, cmds)...)
}

// buildAll is build for commands that are sent at once.
func (c *clock) buildAll(client rueidis.CoreClient, cmds []rueidis.Completed) []rueidis.Completed {
	all := make([]rueidis.Completed, len(cmds))
	for i, cmd := range cmds {
		all[i] = c.build(client, cmd)
	}
	return all
}

// build is the changed form of a command of rueidis.
func (c *clock) build(client rueidis.CoreClient, cmd rueidis.Completed) rueidis.Completed {
	w, is := c.change(cmd.Commands())
	switch {
	case !is:
		return cmd
	case len(w) == 3 && (strings.EqualFold(w[1], "exists") || w[0] == "EVAL"):
		return client.B().Arbitrary(w...).Build()
	case len(w) == 3:
		return client.B().ScriptLoad().Script(w[2]).Build()
	}
	n, _ := strconv.Atoi(w[2])
	return client.B().Arbitrary(w[:3]...).Keys(w[3 : 3+n]...).Args(w[3+n:]...).Build()
}
