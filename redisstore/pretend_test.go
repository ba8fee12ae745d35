// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/redis/go-redis/v9"
)

// pretenceKey holds, on the server, the clock and the run id that scripts see.
const pretenceKey = "pretence"

// pretence stands between a store and a real server. In the text of every
// script it replaces the two things a test cannot choose, the server's clock and
// its run id, by fields of a key. The scripts of the library need no switch for
// it, and everything else in them runs as it is.
type pretence struct {
	plain *redis.Client // without the pretence
	now   time.Time
	run   int // number of the server's life, the run id that scripts see

	// proven lets sessions prove the life they were opened in by a subscriber, as
	// a store that listens does: scripts then take their short way. The store
	// itself cannot, because it is told another run id than the scripts.
	proven bool
	proof  *redis.PubSub

	mu    sync.Mutex
	lives map[string]string // session to the life it was opened in
	sha   map[string]string // of the store's text to that of ours
}

// newPretence returns a client whose scripts see the pretended clock.
func newPretence(t testing.TB, addr string) (*pretence, *redis.Client) {
	opts := &redis.Options{Addr: addr, ContextTimeoutEnabled: true}
	p := &pretence{plain: redis.NewClient(opts), sha: map[string]string{}}
	p.begin()
	client := redis.NewClient(opts)
	client.AddHook(p)
	p.proof = p.plain.Subscribe(t.Context())
	t.Cleanup(func() { _, _, _ = client.Close(), p.proof.Close(), p.plain.Close() })
	return p, client
}

// begin starts over: a run that is repeated must see the same numbers.
func (p *pretence) begin() {
	p.now, p.run, p.lives = time.Unix(1800000000, 0), 0, map[string]string{}
}

func (p *pretence) life() string { return "life" + strconv.Itoa(p.run) }

// tell writes the clock and the run id to the server.
func (p *pretence) tell(ctx context.Context) error {
	us := p.now.UnixMicro()
	return p.plain.HSet(ctx, pretenceKey, "s", us/1e6, "us", us%1e6, "run", p.life()).Err()
}

// restart begins another life: nobody is subscribed in it to what belonged to
// the last.
func (p *pretence) restart(ctx context.Context) error {
	p.run++
	if err := p.tell(ctx); err != nil || !p.proven {
		return err
	}
	return p.subscribe(ctx)
}

// subscribe makes the channel of this life the only one with a subscriber.
func (p *pretence) subscribe(ctx context.Context) error {
	if err := p.proof.Unsubscribe(ctx); err != nil {
		return err
	}
	if err := p.proof.Subscribe(ctx, pretenceKey+p.life()); err != nil {
		return err
	}
	for {
		m, err := p.proof.Receive(ctx)
		if s, ok := m.(*redis.Subscription); err != nil || ok && s.Kind == "subscribe" && s.Channel == pretenceKey+p.life() {
			return err
		}
	}
}

// opened notes the life a session was opened in.
func (p *pretence) opened(id driver.SessionID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lives[string(id[:])] = p.life()
}

// prove adds the proof of life to a call of a session: arguments 6 and 7 of
// every script; 9 is the session.
func (p *pretence) prove(args []any) {
	const keys = 1
	if first := 3 + keys; p.proven && len(args) > first+8 {
		if life, ok := p.lives[fmt.Sprint(args[first+8])]; ok {
			args[first+5], args[first+6] = pretenceKey+life, life
		}
	}
}

// pretend changes the text of a script.
func (p *pretence) pretend(text string) string {
	const key = "'" + pretenceKey + "'"
	return strings.NewReplacer(
		"redis.call('TIME')", "redis.call('HMGET', "+key+", 's', 'us')",
		"redis.call('INFO', 'server')", "('run_id:' .. redis.call('HGET', "+key+", 'run') .. '\\r\\nuptime_in_seconds:1\\r\\n')",
	).Replace(text)
}

// change makes a command about a script one about the changed script.
func (p *pretence) change(cmd redis.Cmder) {
	args := cmd.Args()
	p.mu.Lock()
	defer p.mu.Unlock()
	at := 1
	switch cmd.Name() {
	case "evalsha", "evalsha_ro":
		p.prove(args)
		if ours, ok := p.sha[args[1].(string)]; ok {
			args[1] = ours
		} else {
			args[1] = strings.Repeat("0", 40) // the real one may be cached: its text must come
		}
		return
	case "script":
		at = 2 // SCRIPT LOAD text
	case "eval", "eval_ro":
		p.prove(args)
	default:
		return
	}
	if len(args) > at {
		theirs := args[at].(string)
		ours := p.pretend(theirs)
		p.sha[digest(theirs)] = digest(ours)
		args[at] = ours
	}
}

func digest(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// DialHook implements redis.Hook.
func (p *pretence) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (p *pretence) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p.change(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (p *pretence) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			p.change(cmd)
		}
		return next(ctx, cmds)
	}
}

// memory is a copy of all keys, as a replica or a disk has it.
type memory map[string]string

func (p *pretence) dump(ctx context.Context) (memory, error) {
	keys, err := p.plain.Keys(ctx, "*").Result()
	m := memory{}
	for _, key := range keys {
		if err == nil && key != pretenceKey {
			m[key], err = p.plain.Dump(ctx, key).Result()
		}
	}
	return m, err
}

// become replaces the memory of the server; nil is an empty one.
func (p *pretence) become(ctx context.Context, m memory) error {
	if err := p.plain.FlushAll(ctx).Err(); err != nil {
		return err
	}
	for key, value := range m {
		if err := p.plain.Restore(ctx, key, 0, value).Err(); err != nil {
			return err
		}
	}
	return p.tell(ctx)
}

// TestPretenceIsSeen: if the scripts asked for the time in another way, the
// property below would test nothing that has to do with time.
func TestPretenceIsSeen(t *testing.T) {
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

// TestProofIsSeen: the same for the short way of the scripts.
func TestProofIsSeen(t *testing.T) {
	p, store := pretended(t)
	p.proven = true
	w := newWorld(t, p, store, nil)
	if err := p.subscribe(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.open(0, time.Second)
	w.attempt(0, &driver.Claim{Seq: 1, Name: "a", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
	keys, err := p.plain.Keys(t.Context(), "*}").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys: %q, %v", keys, err)
	}
	if raw, err := p.plain.HGet(t.Context(), keys[0], "la").Result(); err != nil || raw[0] != 'X' {
		t.Errorf("the grant is kept as %q, %v; want the short form, beginning with X", raw, err)
	}
}
