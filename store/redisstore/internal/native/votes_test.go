// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// newVotes returns a scene in which there are votes, and their highest token.
func newVotes(t *testing.T) (*listScene, driver.Token) {
	t.Helper()
	l := newListsIn(t, t.Name())
	l.open("ann", time.Minute)
	token := l.granted("ann", 1, "first", driver.TokenStep)
	l.release("ann", 1, "first")
	return l, token
}

// locks returns the lists of the bucket.
func (l *listScene) locks() []string {
	l.t.Helper()
	return slices.DeleteFunc(l.keys(), func(k string) bool { return !strings.HasPrefix(k, ":l:") })
}

// vote is an attempt of a process with a floor, for a claim that is not queued.
func (l *listScene) vote(who string, seq uint64, name string, floor driver.Token) (driver.Outcome, error) {
	return l.on[who].Attempt(l.t.Context(), &driver.Claim{Seq: seq, Name: name, Floor: floor,
		Terms: &driver.Terms{Weight: 1, Record: &driver.Record{Owner: who}}})
}

// granted is vote for a claim that must be granted.
func (l *listScene) granted(who string, seq uint64, name string, floor driver.Token) driver.Token {
	l.t.Helper()
	out, err := l.vote(who, seq, name, floor)
	if err != nil || out.State != driver.Granted || out.Token < floor {
		l.t.Fatalf("%s's vote for %q is %v with token %v, %v; want a token of at least %v", who, name, out.State, out.Token, err, floor)
	}
	return out.Token
}

func (l *listScene) release(who string, seq uint64, name string) {
	l.t.Helper()
	if found, err := l.on[who].Withdraw(l.t.Context(), driver.Withdrawal{Seq: seq, Name: name}); err != nil || found != driver.WasGranted {
		l.t.Fatal(found, err)
	}
}

// scripts notes which scripts are run for a lock. Sessions and the store have others, which may come at any time.
type scripts struct{ recorder }

// ProcessHook implements redis.Hook.
func (r *scripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		ofLock := func(arg any) bool { key, _ := arg.(string); return strings.Contains(key, ":l:") }
		if strings.HasPrefix(cmd.Name(), "eval") && slices.ContainsFunc(cmd.Args(), ofLock) {
			r.mu.Lock()
			r.sent = append(r.sent, fmt.Sprint(cmd.Args()[1]))
			r.mu.Unlock()
		}
		return next(ctx, cmd)
	}
}

// TestVotesAreOneScript: a vote for a free lock, and its release, run one script each, and
// count where the slow path counts.
func TestVotesAreOneScript(t *testing.T) {
	t.Parallel()
	l, first := newVotes(t)
	sent := &scripts{}
	l.plain.AddHook(sent)
	for i, name := range []string{"x", "xy", "xyz", "a longer name", "ä"} {
		seq := uint64(10*i + 10)
		floor := first + driver.Token(i+1)*1000*driver.TokenStep
		l.granted("ann", seq+2, name, floor)
		l.release("ann", seq+2, name)
		if got := sent.take(); len(got) != 2 || got[0] != got[1] {
			t.Errorf("a vote and its release run %q, want the script of both twice", got)
		}
		fields := l.fields()
		slow := &driver.Terms{Weight: 1, Record: &driver.Record{}, MaxHold: time.Minute} // not plain
		out, err := l.on["ann"].Attempt(t.Context(), &driver.Claim{Seq: seq + 3, Name: name, Floor: driver.TokenStep, Terms: slow})
		if err != nil || out.Token <= floor {
			t.Errorf("%q: token %v of the slow path, %v, want one above %v", name, out.Token, err, floor)
		}
		l.release("ann", seq+3, name)
		again := l.granted("ann", seq+4, name, driver.TokenStep)
		if again <= out.Token || l.fields() != fields {
			t.Errorf("%q: token %v after %v of the slow path, fields %s and then %s", name, again, out.Token, fields, l.fields())
		}
		l.release("ann", seq+4, name)
		sent.take()
	}
	if keys := l.locks(); len(keys) > 0 {
		t.Errorf("the lists without a lock are %q", keys)
	}
}

// TestVotesOfOneBatch: of many votes for one lock, in batches, one is granted.
func TestVotesOfOneBatch(t *testing.T) {
	t.Parallel()
	l, _ := newVotes(t)
	for round := range uint64(20) {
		var mu sync.Mutex
		granted := map[string][]uint64{}
		var wg sync.WaitGroup
		for i := range uint64(64) {
			wg.Go(func() {
				name, seq := fmt.Sprint("lock ", i%4), 100*round+100+i
				out, err := l.vote("ann", seq, name, driver.TokenStep)
				if err != nil {
					t.Error(err)
				}
				if out.State == driver.Granted {
					mu.Lock()
					granted[name] = append(granted[name], seq)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for name, seqs := range granted {
			if len(seqs) != 1 {
				t.Fatalf("%q is granted to %d claims at once", name, len(seqs))
			}
			wg.Go(func() { l.release("ann", seqs[0], name) })
		}
		wg.Wait()
		if len(granted) != 4 {
			t.Fatalf("%d of 4 free locks are granted", len(granted))
		}
	}
}

// TestForeignKeyFailsNoOtherVote: a key of another type in the place of a lock fails no vote for
// another lock in the same batch, and no release.
func TestForeignKeyFailsNoOtherVote(t *testing.T) {
	t.Parallel()
	l, _ := newVotes(t)
	must.OK(t, l.plain.Set(t.Context(), l.base+":l:bad", "not a list", 0).Err())
	var wg sync.WaitGroup
	for i := range uint64(64) {
		wg.Go(func() {
			for round := range uint64(20) {
				name, seq := fmt.Sprint("lock ", i), 1000*i+round+100
				if i%4 == 0 {
					name = "bad"
				}
				out, err := l.vote("ann", seq, name, driver.TokenStep)
				if name == "bad" {
					continue
				}
				if err != nil || out.State != driver.Granted {
					t.Errorf("%q is %v, %v", name, out.State, err)
					return
				}
				if found, err := l.on["ann"].Withdraw(t.Context(), driver.Withdrawal{Seq: seq, Name: name}); err != nil || found != driver.WasGranted {
					t.Errorf("the release of %q is %v, %v", name, found, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestVotesBehindAHolder: a vote does not get a lock that another claim holds or waits for,
// and a release leaves the queue alone.
func TestVotesBehindAHolder(t *testing.T) {
	t.Parallel()
	l, first := newVotes(t)
	l.open("bob", time.Minute)
	held := l.granted("ann", 10, "x", first+driver.TokenStep)
	l.attempt("bob", 1, "x", driver.Terms{}, driver.Queued)
	if out, err := l.vote("ann", 11, "x", first); err != nil || out.State != driver.Busy {
		t.Fatalf("a vote behind a queue is %v, %v", out.State, err)
	}
	if n := l.plain.LLen(t.Context(), l.base+":l:x").Val(); n != 4 {
		t.Errorf("the list has %d elements, want those of the holder and of the queue", n)
	}
	l.release("ann", 10, "x")
	if n := l.plain.LLen(t.Context(), l.base+":l:x").Val(); n != 2 {
		t.Errorf("the list has %d elements after the release, want those of the next holder", n)
	}
	if second := l.attempt("bob", 1, "x", driver.Terms{}, driver.Granted); second <= held {
		t.Errorf("token %v of the next holder after %v", second, held)
	}
}

// TestTombstonedVote: a vote that was withdrawn before it came is not granted.
func TestTombstonedVote(t *testing.T) {
	t.Parallel()
	l, _ := newVotes(t)
	if _, err := l.on["ann"].Withdraw(t.Context(), driver.Withdrawal{Seq: 10, Name: "x", Tombstone: true}); err != nil {
		t.Fatal(err)
	}
	if out, err := l.vote("ann", 10, "x", driver.TokenStep); err != nil || out.State != driver.Absent {
		t.Errorf("a tombstoned vote is %v, %v", out.State, err)
	}
	l.granted("ann", 11, "x", driver.TokenStep)
}

// TestVoteAfterARestart: the first call after a restart that kept the data is a vote. The
// server has another run id, so the vote does not count.
func TestVoteAfterARestart(t *testing.T) {
	t.Parallel()
	l, _ := newVotes(t)
	must.OK(t, l.server.Losses().Restart())
	redistest.WaitFor(t, "the client finds the server again", func() bool { return l.plain.Ping(t.Context()).Err() == nil })
	for seq := uint64(10); ; seq++ { // a connection of before may still be in the pool
		out, err := l.vote("ann", seq, fmt.Sprint("y", seq), driver.TokenStep)
		if errors.Is(err, driver.ErrUnknown) && seq < 30 {
			continue
		}
		if !errors.Is(err, driver.ErrReset) {
			t.Fatalf("after the restart: %v, %v", out.State, err)
		}
		break
	}
	if keys := l.locks(); len(keys) > 0 {
		t.Errorf("the lists after votes that do not count are %q", keys)
	}
}

// TestNoGrantIsPutBackAfterANewerVote: after a data loss a process that knows of no grace was granted the lock by a vote, and
// released it. The holder of before comes then, and has the rest of a grace period kept. Its lease is lost (R4): votes of a batch
// have no tickets, and count all the same.
func TestNoGrantIsPutBackAfterANewerVote(t *testing.T) {
	t.Parallel()
	l, _ := newVotes(t)
	rewind := l.server.Losses().Checkpoint()
	l.open("bob", 20*time.Second)
	token := l.granted("bob", 1, "x", driver.TokenStep)
	must.OK(t, rewind())
	redistest.WaitFor(t, "the client finds the server again", func() bool { return l.plain.Ping(t.Context()).Err() == nil })
	l.open("cid", time.Minute)
	newer := l.granted("cid", 1, "x", driver.TokenStep)
	l.release("cid", 1, "x")
	asks, err := newGoRedis(l.plain, &native.Options{Namespace: lists + t.Name(), Grace: true, MaxTTL: time.Minute})
	must.OK(t, err)
	bob, _, err := asks.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: l.ids["bob"], TTL: 20 * time.Second})
	must.OK(t, err)
	kept, err := bob.Reclaim(t.Context(), []driver.Held{{Claim: driver.Claim{Seq: 1, Name: "x", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}, Token: token}}, true)
	if err != nil || kept[0] {
		t.Errorf("the grant %d after %d, which was released: it is put back: %v, %v", token, newer, kept, err)
	}
}
