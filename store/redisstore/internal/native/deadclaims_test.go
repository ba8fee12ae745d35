// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// plainClaim is a claim for the lock x.
func plainClaim(seq uint64, queue bool) *driver.Claim {
	return &driver.Claim{Seq: seq, Name: "x", Queue: queue, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}}
}

// behindDeadClaims returns a scene in which ann holds x and bob waits behind many claims of
// a process that died.
func behindDeadClaims(t *testing.T) *layout {
	t.Helper()
	l := newLayout(t)
	for _, who := range []string{"ann", "dead", "bob", "eve"} {
		l.open(who)
	}
	l.attempt("ann", 1, driver.Terms{}, driver.Granted)
	for seq := range uint64(1500) {
		l.attempt("dead", seq+1, driver.Terms{}, driver.Queued)
	}
	l.attempt("bob", 1, driver.Terms{}, driver.Queued)
	l.die("dead")
	return l
}

// proved waits until the scripts of a session carry the run id of the server: they do not
// read it with INFO any more.
func (l *layout) proved(who string) {
	l.t.Helper()
	calls := regexp.MustCompile(`cmdstat_info:calls=(\d+)`)
	asked := func() int {
		text, err := l.plain.Info(l.ctx, "commandstats").Result()
		l.must(err)
		n := 0
		if m := calls.FindStringSubmatch(text); m != nil {
			n, _ = strconv.Atoi(m[1])
		}
		return n
	}
	seq := uint64(1 << 20)
	redistest.WaitFor(l.t, "the run id of the server is proved", func() bool {
		before := asked()
		seq++
		claim := plainClaim(seq, false)
		claim.Name = "other"
		_, err := l.on[who].Attempt(l.ctx, claim)
		l.must(err)
		_, err = l.on[who].Withdraw(l.ctx, driver.Withdrawal{Seq: seq, Name: "other"})
		l.must(err)
		return asked() == before+1 // this one
	})
}

// TestNoneOvertakesBehindDeadClaims: a call that removes only some of the dead claims in
// front of a queue leaves the lock to the first claim behind them that lives.
func TestNoneOvertakesBehindDeadClaims(t *testing.T) {
	t.Parallel()
	l := behindDeadClaims(t)
	l.proved("eve")
	l.die("ann")
	l.attempt("eve", 3, driver.Terms{}, driver.Queued)
	out, err := l.on["eve"].Attempt(l.ctx, plainClaim(4, false))
	if err != nil || out.State != driver.Busy || len(out.Holders) != 1 {
		t.Fatalf("a claim that came later is %v, %+v, %v; want another to hold the lock", out.State, out.Holders, err)
	}
	redistest.WaitFor(t, "the first that lives is granted the lock", func() bool {
		out, err := l.on["bob"].Attempt(l.ctx, plainClaim(1, true))
		l.must(err)
		return out.State == driver.Granted
	})
	l.withdraw("bob", 1, false)
	l.attempt("eve", 3, driver.Terms{}, driver.Granted)
	l.withdraw("eve", 3, false)
	if st, err := l.store.Inspect(l.ctx, "x"); err != nil || len(st.Holders)+st.Waiting != 0 {
		t.Errorf("the lock is not free: %+v, %v", st, err)
	}
	if all := l.elements("x"); len(all) != 0 {
		t.Errorf("the free lock has left its list behind: %q", all)
	}
}

// TestDeadClaimsKeepNoLock: a lock that only dead claims wait for is free, however many there
// are: an attempt that does not queue is granted it.
func TestDeadClaimsKeepNoLock(t *testing.T) {
	t.Parallel()
	l := behindDeadClaims(t)
	l.die("bob")
	l.die("ann")
	out, err := l.on["eve"].Attempt(l.ctx, plainClaim(1, false))
	if err != nil || out.State != driver.Granted {
		t.Errorf("the claim is %v, %v, want it granted", out.State, err)
	}
}

// TestDeadClaimsDelayNoWaiter: when the lock becomes free, the first claim that lives is granted
// the lock without polling, however many dead claims are in front of it.
func TestDeadClaimsDelayNoWaiter(t *testing.T) {
	t.Parallel()
	for how, free := range map[string]func(*layout) error{
		"withdraw": func(l *layout) error { l.withdraw("ann", 1, false); return nil },
		"close":    func(l *layout) error { return l.on["ann"].Close(l.ctx) },
		"break": func(l *layout) error {
			st, err := l.store.Inspect(l.ctx, "x")
			l.must(err)
			_, err = l.store.Break(l.ctx, "x", st.Holders[0].Token)
			return err
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			l := behindDeadClaims(t)
			granted := make(chan error, 1)
			ctx, cancel := context.WithCancel(l.ctx)
			defer cancel()
			go func() {
				out, err := l.on["bob"].Await(ctx, plainClaim(1, true))
				if err == nil && out.State != driver.Granted {
					err = fmt.Errorf("the claim is %v", out.State)
				}
				granted <- err
			}()
			redistest.WaitFor(t, "bob listens", func() bool {
				channels, err := l.plain.PubSubChannels(l.ctx, "*").Result()
				return err == nil && len(channels) > 0
			})
			l.must(free(l))
			redistest.WaitFor(t, "bob is granted the lock", func() bool {
				select {
				case err := <-granted:
					l.must(err)
					return true
				default:
					return false
				}
			})
		})
	}
}

// TestRunIsProvedWhicheverConnectsFirst: a go-redis client keeps its manager of maintenance
// notifications if the first connection was made by a Conn, as that of Check is. The fast
// path is used anyway.
func TestRunIsProvedWhicheverConnectsFirst(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	defer client.Close()
	first := client.Conn()
	defer first.Close()
	must.OK(t, first.Ping(t.Context()).Err())
	l := layoutOn(t, client, "orders")
	l.open("ann")
	l.proved("ann")
}
