// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// recorder notes the commands that are sent at once.
type recorder struct {
	mu sync.Mutex
	// sent is a line for each pipeline or transaction: names, and the kind of the last argument.
	sent []string
	// before is called before a pipeline is sent, if it is not nil.
	before func()
}

// DialHook implements redis.Hook.
func (r *recorder) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (r *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return next(ctx, cmd) }
}

// ProcessPipelineHook implements redis.Hook.
func (r *recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var line []string
		for _, cmd := range cmds {
			name, args := cmd.Name(), cmd.Args()
			if last := fmt.Sprint(args[len(args)-1]); name == "lrem" || name == "rpush" {
				name += " " + strings.TrimRight(last[:1], "0123456789")
			}
			if name == "zadd" { // its options
				name = strings.Trim(fmt.Sprint(append([]any{name}, args[2:len(args)-2]...)), "[]")
			}
			line = append(line, strings.TrimSpace(name))
		}
		if line[0] != "client" { // go-redis greets every new connection
			r.mu.Lock()
			r.sent = append(r.sent, strings.Join(line, ", "))
			r.mu.Unlock()
		}
		if r.before != nil {
			r.before()
		}
		return next(ctx, cmds)
	}
}

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.sent = nil }()
	return r.sent
}

// TestPlainCommands: a free lock is acquired by one transaction, and released by a
// pipeline that removes the ticket before the claim.
func TestPlainCommands(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name())
	var sent recorder
	l.plain.AddHook(&sent)
	l.open("ann", time.Minute)
	l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
	if got := sent.take(); !slices.Equal(got, []string{"multi, lmove, rpush X, hmget, script, exec"}) {
		t.Errorf("an acquisition sends %q", got)
	}
	if found, err := l.on["ann"].Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"}); err != nil || found != driver.WasGranted {
		t.Fatal(found, err)
	}
	if got := sent.take(); !slices.Equal(got, []string{"lrem, lrem X, llen"}) {
		t.Errorf("a release sends %q; the ticket must be removed before the claim", got)
	}
	if keys := l.keys(); !slices.Equal(keys, []string{"", ":s", ":t"}) {
		t.Errorf("the keys of an unused namespace are %q", keys)
	}
}

// TestHalfARelease: while a release is half done and there are no tickets, the next
// holder gets a higher token, not that of the last. The server may reject the first command and
// execute the second.
func TestHalfARelease(t *testing.T) {
	t.Parallel()
	for at, half := range []string{"ticket", "claim"} {
		t.Run(half+" removed", func(t *testing.T) {
			t.Parallel()
			l := newListsIn(t, lists+"HalfARelease")
			l.open("ann", time.Minute)
			l.open("bob", time.Minute)
			first := l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
			list := l.base + ":l:x"
			value, err := l.plain.LIndex(t.Context(), list, int64(at)).Result()
			must.OK(t, err)
			if n, err := l.plain.LRem(t.Context(), list, 1, value).Result(); n != 1 || err != nil {
				t.Fatalf("the %s of the grant: %d, %v", half, n, err)
			}
			must.OK(t, l.plain.Del(t.Context(), l.base+":t").Err())
			if second := l.attempt("bob", 1, "x", driver.Terms{}, driver.Granted); second <= first {
				t.Errorf("token %v after %v", second, first)
			}
		})
	}
}

// TestAcquireAfterARestart: the first call after a restart that kept the data is an
// acquisition by plain commands. The server has another run id, so the lock is not granted.
func TestAcquireAfterARestart(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"", batched} {
		t.Run("suffix="+suffix, func(t *testing.T) {
			t.Parallel()
			testListsAcquireAfterARestart(t, newListsIn(t, lists+"AcquireAfterARestart"+suffix))
		})
	}
}

func testListsAcquireAfterARestart(t *testing.T, l *listScene) {
	l.open("ann", time.Minute)
	l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
	must.OK(t, l.server.Losses().Restart())
	redistest.WaitFor(t, "the client finds the server again", func() bool { return l.plain.Ping(t.Context()).Err() == nil })
	terms := &driver.Terms{Weight: 1, Record: &driver.Record{}}
	for seq := uint64(2); ; seq++ { // a connection of before may still be in the pool
		out, err := l.on["ann"].Attempt(t.Context(), &driver.Claim{Seq: seq, Name: fmt.Sprint("y", seq), Terms: terms, Queue: true})
		if errors.Is(err, driver.ErrUnknown) && seq < 20 {
			continue
		}
		if !errors.Is(err, driver.ErrReset) {
			t.Fatalf("after the restart: %v, %v", out.State, err)
		}
		return
	}
}

// TestReleaseAfterARestart: a release does not check the run id. The first call after a
// restart that kept the data removes its grant and nothing else, and the next token is higher.
func TestReleaseAfterARestart(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name())
	l.open("ann", time.Minute)
	l.open("bob", time.Minute)
	first := l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
	l.attempt("bob", 1, "y", driver.Terms{}, driver.Granted)
	must.OK(t, l.server.Losses().Restart())
	redistest.WaitFor(t, "the release is answered", func() bool { // a connection of before may still be in the pool
		found, err := l.on["ann"].Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"})
		return err == nil && found == driver.WasGranted
	})
	if keys := l.keys(); !slices.Equal(keys, []string{"", ":l:y", ":s", ":t"}) {
		t.Errorf("the keys after the release are %q", keys)
	}
	l.open("cid", time.Minute)
	if second := l.attempt("cid", 1, "x", driver.Terms{}, driver.Granted); second <= first {
		t.Errorf("token %v after %v", second, first)
	}
	l.attempt("cid", 2, "y", driver.Terms{}, driver.Queued)
}

// TestPushOfAnEarlierIncarnation: a master that was replaced may still send a push to its
// replicas, one of which is the master now. A claim that is queued there is not granted by it.
func TestPushOfAnEarlierIncarnation(t *testing.T) {
	t.Parallel()
	l := newListsIn(t, t.Name())
	l.open("ann", time.Minute)
	l.open("bob", time.Minute)
	first := l.attempt("ann", 1, "x", driver.Terms{}, driver.Granted)
	l.attempt("bob", 1, "x", driver.Terms{}, driver.Queued)
	type answer struct {
		out driver.Outcome
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		terms := &driver.Terms{Weight: 1, Record: &driver.Record{Owner: "bob"}}
		out, err := l.on["bob"].Await(t.Context(), &driver.Claim{Seq: 1, Name: "x", Terms: terms, Queue: true})
		answers <- answer{out, err}
	}()
	id := l.ids["bob"]
	late := string([]byte{0, 0, 0, 0, 0, 1 /* seq */, 0, 0, 0, 0, 0, 0, 9 /* counter */})
	redistest.WaitFor(t, "bob has the push", func() bool {
		n, err := l.plain.Publish(t.Context(), l.base+":p:"+string(id[:]), late).Result()
		return n == 1 && err == nil
	})
	if _, err := l.on["ann"].Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"}); err != nil {
		t.Fatal(err)
	}
	if a := <-answers; a.err != nil || a.out.State != driver.Granted || a.out.Token <= first {
		t.Errorf("bob's claim is %v with token %v after %v, %v", a.out.State, a.out.Token, first, a.err)
	}
}

// TestNumberOfAVoteIsATicket: random steps found once that a withdrawal from the queue
// removed the ticket of the holder, whose number was the same.
func TestNumberOfAVoteIsATicket(t *testing.T) {
	t.Parallel()
	p, client := newPretense(t, redistest.Start(t).Addr)
	must.OK(t, p.write(t.Context()))
	w := newWorld(t, p, newStore(t, p, client, false), nil)
	w.open(0, time.Second)
	w.attempt(0, &driver.Claim{Seq: 20, Name: "a", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
	w.withdraw(0, driver.Withdrawal{Seq: 20, Name: "a"})
	w.attempt(0, &driver.Claim{Seq: 1, Name: "a", Floor: 5, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}) // 5 above the last
	for seq := uint64(2); seq < 12; seq++ {
		w.attempt(0, &driver.Claim{Seq: seq, Name: "a", Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
	}
	for seq := uint64(2); seq < 12; seq++ {
		w.withdraw(0, driver.Withdrawal{Seq: seq, Name: "a"})
		w.compare("a")
	}
}

// TestGrantUnknownToItsProcess: random steps found once that a claim was answered to be
// broken, and granted again by older data. Its process does not know the grant, so the claim is
// a new one: behind the queue, and with a new token.
func TestGrantUnknownToItsProcess(t *testing.T) {
	t.Parallel()
	p, client := newPretense(t, redistest.Start(t).Addr)
	must.OK(t, p.write(t.Context()))
	w := newWorld(t, p, newStore(t, p, client, false), nil)
	w.open(0, time.Second)
	w.open(1, time.Second)
	shared := &driver.Claim{Seq: 100, Name: "a", Queue: true, Terms: &driver.Terms{Mode: driver.Shared, Weight: 1, Record: &driver.Record{}}}
	w.attempt(0, shared)
	w.save()
	w.breakToken("a", w.pairs["a"][0])
	w.attempt(0, shared) // it is absent
	w.lose("older", false)
	w.attempt(1, &driver.Claim{Seq: 100, Name: "a", Queue: true, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
	out, err := w.procs[0].real.Attempt(w.ctx, shared)
	if err != nil || out.State != driver.Queued || len(out.Holders) != 1 || out.Holders[0].Claim.Session != w.procs[1].id {
		t.Errorf("the claim that its process took for broken is %v with holders %+v, %v; want queued behind the other", out.State, out.Holders, err)
	}
	if broken := w.pairs["a"][0].real; err == nil && out.Holders[0].Token <= broken {
		t.Errorf("token %v after %v", out.Holders[0].Token, broken)
	}
}
