// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/redis/go-redis/v9"
)

// pretenseKey holds, on the server, the clock and the run id that scripts see.
const pretenseKey = "pretense"

// pretense stands between a store and a real server. In the text of every
// script it replaces the two things a test cannot choose, the server's clock and
// its run id, by fields of a key. The scripts of the library need no switch for it, and
// everything else in them runs as it is.
type pretense struct {
	plain     *redis.Client // without the pretense
	namespace string        // of the stores that see it
	now       time.Time
	run       int // number of the server's run, the run id that scripts see
	// repl and repl2 are the replication ids that scripts see, backlog is 1 if there is a backlog.
	repl, repl2 string
	backlog     int
	role        string

	// proven lets the store load scripts that carry a run id: they then take the
	// fast path.
	proven bool

	mu   sync.Mutex
	sha  map[string]changed // of the store's text
	used int                // calls of scripts that carry a run id
	// plainCalls are transactions and releases of plain commands.
	plainCalls int
	mutant     *strings.Replacer // changes scripts, if it is not nil
	gate       *gate             // that calls wait at, if there is one
	most       int               // operations in a batch, the most since the gate was made
	batchCalls int               // batches that were scripts
}

// changed is a script as the server has it.
type changed struct {
	sha   string
	runID string // the one it was loaded under and for, or empty
}

// pretenses is how many there were: each has its own namespace.
var pretenses atomic.Int64

// newPretense returns a client whose scripts see the pretended clock.
func newPretense(t testing.TB, addr string) (*pretense, *redis.Client) {
	opts := &redis.Options{Addr: addr, ContextTimeoutEnabled: true}
	p := &pretense{plain: redis.NewClient(opts), sha: map[string]changed{}, namespace: fmt.Sprint(eager, "pretense", pretenses.Add(1))}
	p.begin()
	for _, way := range ways {
		clocks.Store(p.namespace+way.suffix, func() time.Time { return p.now })
	}
	client := redis.NewClient(opts)
	client.AddHook(p)
	t.Cleanup(func() { _, _ = client.Close(), p.plain.Close() })
	return p, client
}

// begin starts over: a run that is repeated must see the same numbers.
func (p *pretense) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.run, p.repl, p.repl2, p.backlog, p.role = time.Unix(1800000000, 0), 0, "first", "000", 0, "master"
}

func (p *pretense) runID() string { return "run" + strconv.Itoa(p.run) }

// write writes the clock and the run id to the server.
func (p *pretense) write(ctx context.Context) error {
	us := p.now.UnixMicro()
	return p.plain.HSet(ctx, pretenseKey, "s", us/1e6, "us", us%1e6, "run", p.runID(), "repl", p.repl, "repl2", p.repl2, "backlog", p.backlog, "role", p.role).Err()
}

// demote makes the server a replica that accepts writes. It keeps its replication id until it is promoted.
func (p *pretense) demote(ctx context.Context) error {
	p.mu.Lock()
	p.role = "slave"
	p.mu.Unlock()
	return p.write(ctx)
}

// promote gives the server the replication ids of a replica that is promoted, or, with a second id of zeros, of a master to which
// a replica connects, or, without a backlog, of one that has had no replica for long.
func (p *pretense) promote(ctx context.Context, second string, backlog int) error {
	p.mu.Lock()
	p.repl, p.repl2, p.backlog, p.role = p.repl+"x", second, backlog, "master"
	p.mu.Unlock()
	return p.write(ctx)
}

// restart gives the server another run id: the scripts of the last are gone.
func (p *pretense) restart(ctx context.Context) error {
	p.mu.Lock()
	p.run++
	p.mu.Unlock()
	return p.write(ctx)
}

// pretend changes the text of a script.
func (p *pretense) pretend(text string) string {
	const key = "'" + pretenseKey + "'"
	if p.mutant != nil {
		text = p.mutant.Replace(text)
	}
	return strings.NewReplacer(
		"redis.call('TIME')", "redis.call('HMGET', "+key+", 's', 'us')",
		"redis.call('INFO', 'server')", "('run_id:' .. redis.call('HGET', "+key+", 'run') .. '\\r\\nuptime_in_seconds:1\\r\\n')",
		"redis.call('INFO', 'replication')", "('role:' .. (redis.call('HGET', "+key+", 'role') or '') .. '\\r\\nmaster_replid:' .. (redis.call('HGET', "+key+", 'repl') or '') .. '\\r\\nmaster_replid2:' .. (redis.call('HGET', "+key+", 'repl2') or '') .. "+
			"'\\r\\nrepl_backlog_active:' .. (redis.call('HGET', "+key+", 'backlog') or '') .. '\\r\\n')",
	).Replace(text)
}

var ofRun = regexp.MustCompile(`(?m)^local RUN_ID = '(\w*)'`)

// change makes a command about a script one about the changed script. It reports
// whether the command is answered already.
func (p *pretense) change(cmd redis.Cmder) bool {
	args := cmd.Args()
	p.mu.Lock()
	defer p.mu.Unlock()
	at := 1
	switch cmd.Name() {
	case "info": // of Prove
		if text, ok := cmd.(*redis.StringCmd); ok && p.proven {
			text.SetVal("redis_version:7.0.15\r\nrun_id:" + p.runID() + "\r\n")
			return true
		}
		return false
	case "evalsha", "evalsha_ro":
		ours, ok := p.sha[args[1].(string)]
		if !ok || ours.runID != "" && (ours.runID != p.runID() || !p.proven) {
			ours.sha = strings.Repeat("0", 40) // the real one may be cached: its text must come
		} else if ours.runID != "" {
			p.used++
		}
		args[1] = ours.sha
		return false
	case "script":
		at = 2 // SCRIPT LOAD text
		if strings.EqualFold(fmt.Sprint(args[1]), "exists") {
			ours := p.sha[args[2].(string)]
			if ours.sha == "" || ours.runID != p.runID() || !p.proven {
				ours.sha = strings.Repeat("0", 40)
			} else {
				p.plainCalls++
			}
			args[2] = ours.sha
			return false
		}
	case "eval", "eval_ro":
	default:
		return false
	}
	if len(args) > at {
		theirs := args[at].(string)
		ours := p.pretend(theirs)
		runID := "" // a script that is not the store's has no such line
		if m := ofRun.FindStringSubmatch(theirs); m != nil {
			runID = m[1]
		}
		p.sha[digest(theirs)] = changed{digest(ours), runID}
		args[at] = ours
	}
	return false
}

func digest(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// DialHook implements redis.Hook.
func (p *pretense) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (p *pretense) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p.pass([]redis.Cmder{cmd})
		if p.change(cmd) {
			return nil
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (p *pretense) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		p.pass(cmds)
		for _, cmd := range cmds {
			p.change(cmd)
		}
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if c, ok := cmd.(interface{ SetVal(any) }); ok && cmd.Name() == "time" {
				us := p.now.UnixMicro()
				c.SetVal([]any{strconv.FormatInt(us/1e6, 10), strconv.FormatInt(us%1e6, 10)})
			}
		}
		return err
	}
}

// memory is a copy of all keys, as a replica or a disk has it.
type memory map[string]string

func (p *pretense) dump(ctx context.Context) (memory, error) {
	keys, err := p.plain.Keys(ctx, "*").Result()
	m := memory{}
	for _, key := range keys {
		if err == nil && key != pretenseKey {
			m[key], err = p.plain.Dump(ctx, key).Result()
		}
	}
	return m, err
}

// become replaces the memory of the server; nil is an empty one.
func (p *pretense) become(ctx context.Context, m memory) error {
	if err := p.plain.FlushAll(ctx).Err(); err != nil {
		return err
	}
	for key, value := range m {
		if err := p.plain.Restore(ctx, key, 0, value).Err(); err != nil {
			return err
		}
	}
	return p.write(ctx)
}

// TestPretenseIsSeen: if the scripts asked for the time in another way, the
// property below would test nothing that has to do with time.
func TestPretenseIsSeen(t *testing.T) {
	p, store := pretended(t)
	w := newWorld(t, p, store, nil)
	w.open(0, time.Second)
	w.elapse(time.Second - 2*tick)
	w.keepAlive(0)
	w.elapse(2 * time.Second)
	if _, err := w.procs[0].real.KeepAlive(t.Context()); err == nil {
		t.Error("a session with a TTL of 1 s lives after 2 s: the scripts do not see the pretended clock")
	}
}

// TestProofIsSeen: the same for the fast path of the scripts.
func TestProofIsSeen(t *testing.T) {
	p, store := pretended(t)
	p.proven = true
	w := newWorld(t, p, store, nil)
	w.open(0, time.Second) // waits for it
	w.elapse(tick)
	before := p.shortCalls()
	w.must(p.restart(w.ctx))
	if _, err := w.procs[0].real.KeepAlive(w.ctx); !errors.Is(err, driver.ErrReset) || p.shortCalls() != before {
		t.Errorf("after a restart: %v, %d calls of scripts of the run before", err, p.shortCalls()-before)
	}
}

func (p *pretense) shortCalls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}
