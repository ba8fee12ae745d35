// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/faultstore"
	"github.com/fencelock/fencelock/store/memstore"
)

// open opens a session of a process without the core.
func (r *rig) open(faults map[int]faultstore.Fault) driver.Session {
	r.t.Helper()
	s := r.store(faults)
	d, _, err := s.Open(r.t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 10 * time.Second})
	must.OK(r.t, err)
	r.t.Cleanup(func() {
		_ = d.Close(context.Background())
		_ = s.Close()
	})
	return d
}

// reclaim opens a session that holds x, lets nodes lose their data, and returns whether x is reclaimed in the session that is opened again.
func (r *rig) reclaim(faults map[int]faultstore.Fault, loseData func(driver.Session)) (kept bool, err error) {
	r.t.Helper()
	s := r.store(faults)
	r.t.Cleanup(func() { _ = s.Close() })
	req := driver.OpenRequest{Shard: s.Shard("x"), ID: driver.NewSessionID(), TTL: 10 * time.Second}
	d, _, err := s.Open(r.t.Context(), req)
	must.OK(r.t, err)
	out, err := d.Attempt(r.t.Context(), claim(1))
	if err != nil || out.State != driver.Granted {
		r.t.Fatalf("got %+v, %v", out, err)
	}
	loseData(d)
	if _, err := d.KeepAlive(r.t.Context()); !errors.Is(err, driver.ErrReset) {
		r.t.Fatalf("got %v, want a reset", err)
	}
	d, _, err = s.Open(r.t.Context(), req)
	must.OK(r.t, err)
	all, err := d.Reclaim(r.t.Context(), []driver.Held{{Claim: *claim(1), Token: out.Token}}, true)
	r.log("reclaim: %v, %v; %s", all, err, r.holders("x"))
	return err == nil && all[0], err
}

// foreign returns sessions on b and c alone that hold x there.
func (r *rig) foreign() (all []driver.Session) {
	r.t.Helper()
	for _, store := range r.stores[1:] {
		f, _, err := store.Open(r.t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 10 * time.Second})
		must.OK(r.t, err)
		if out, err := f.Attempt(r.t.Context(), claim(1)); err != nil || out.State != driver.Granted {
			r.t.Fatalf("got %+v, %v", out, err)
		}
		all = append(all, f)
	}
	return all
}

// claim is an exclusive claim for x.
func claim(seq uint64) *driver.Claim {
	return &driver.Claim{Seq: seq, Name: "x", Terms: &driver.Terms{Weight: 1, Record: &driver.Record{Owner: "client"}}}
}

// TestKeptByAMajority: a lock that is given back and left taken for a time is
// confirmed when a majority keeps it. A node without our session keeps nothing.
func TestKeptByAMajority(t *testing.T) {
	slow := faultstore.On(faultstore.Withdraw, faultstore.Delay(20*time.Millisecond, 0))
	lost := faultstore.On(faultstore.Withdraw, faultstore.Nth(1, faultstore.LoseReply()))
	for name, c := range map[string]struct {
		b    faultstore.Fault
		want error
	}{
		"b is slow":              {slow, nil},
		"the reply of b is lost": {lost, driver.ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { keptByAMajority(t, c.b, c.want) })
		})
	}
}

func keptByAMajority(t *testing.T, b faultstore.Fault, want error) {
	r := newRig(t, 3, grace())
	d := r.open(map[int]faultstore.Fault{1: b, 2: away(0, time.Hour)})
	time.Sleep(time.Second)
	if out, err := d.Attempt(t.Context(), claim(1)); err != nil || out.State != driver.Granted {
		t.Fatalf("got %+v, %v", out, err)
	}
	leave := driver.Withdrawal{Seq: 1, Name: "x", KeepFor: time.Minute}
	found, err := d.Withdraw(t.Context(), leave)
	r.log("withdrawn, to be kept for a minute: found %v, %v", found, err)
	if want != nil {
		if !errors.Is(err, want) {
			t.Fatalf("got %v, %v, want %v", found, err, want)
		}
		if _, err := d.KeepAlive(t.Context()); err != nil { // it is repeated behind this
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		found, err = d.Withdraw(t.Context(), leave)
		r.log("again: found %v, %v", found, err)
	} else if found != driver.WasGranted {
		t.Errorf("found %v, want granted", found)
	}
	must.OK(t, err)
	kept := 0
	for _, s := range r.stores {
		if st, err := s.Inspect(t.Context(), "x"); err == nil && len(st.Holders) == 1 && st.Holders[0].Kept {
			kept++
		}
	}
	if kept != 2 {
		t.Errorf("%d nodes keep the lock, want 2: %s", kept, r.holders("x"))
	}
	other := r.process(nil, nil)
	if l, err := other.Mutex("x").TryLock(t.Context()); !errors.Is(err, fencelock.ErrBusy) {
		t.Errorf("another client acquired it: %v, %v", l, err)
	}
}

// TestKeptByTooFew: too few of the nodes that granted the lock can keep it, and the
// withdrawal with KeepFor returns an error.
func TestKeptByTooFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, grace())
		d := r.open(map[int]faultstore.Fault{2: away(0, time.Hour)})
		time.Sleep(time.Second)
		if out, err := d.Attempt(t.Context(), claim(1)); err != nil || out.State != driver.Granted {
			t.Fatalf("got %+v, %v", out, err)
		}
		r.log("b's clock jumps: the session has ended there")
		r.stores[1].StepClock(20 * time.Second)
		found, err := d.Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x", KeepFor: time.Minute})
		if err == nil {
			t.Errorf("found %v although one of three nodes keeps it: %s", found, r.holders("x"))
		}
	})
}

// TestARoundOutlivesAFailedWithdrawal: an attempt finds that its claim must go from a
// node first, and the node does not answer that. The round is decided without it.
func TestARoundOutlivesAFailedWithdrawal(t *testing.T) {
	for _, limited := range []bool{false, true} { // with a limit every node is needed
		t.Run(fmt.Sprintf("limited=%t", limited), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { outlives(t, limited) })
		})
	}
}

func outlives(t *testing.T, limited bool) {
	r := newRig(t, 3, grace())
	foreign := r.foreign()
	d := r.open(map[int]faultstore.Fault{0: faultstore.On(faultstore.Withdraw, faultstore.LoseRequest())})
	c := claim(1)
	if c.Queue = true; limited {
		c.Queue, c.Terms.Limit = false, 1
	}
	attempt := func() {
		t.Helper()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		out, err := d.Attempt(ctx, c)
		r.log("attempt: %v, %v; %s", out.State, err, r.holders("x"))
		if took := time.Since(began); took > time.Second || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the attempt took %v and got %v, %v; a node may take 200 ms", took, out.State, err)
		}
	}
	attempt()
	time.Sleep(time.Second)
	if _, err := foreign[0].Withdraw(t.Context(), driver.Withdrawal{Seq: 1, Name: "x"}); err != nil {
		t.Fatal(err)
	}
	attempt()
}

// TestAWaiterRemembersItsTries: the nodes have no queue, and a's reply to the first attempt
// is lost, so the claim is tombstoned there. The next attempts use another number: otherwise
// a would reject the waiter forever.
func TestAWaiterRemembersItsTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3, &memstore.Options{Grace: true, MaxTTL: 10 * time.Second, NoPush: true, NoQueue: true})
		foreign := r.foreign()
		lost := faultstore.On(faultstore.Attempt, faultstore.Name("x", faultstore.Nth(1, faultstore.LoseReply())))
		d := r.open(map[int]faultstore.Fault{0: lost, 2: away(4*time.Second, time.Hour)})
		c := claim(1)
		c.Queue = true
		if out, err := d.Attempt(t.Context(), c); err != nil || out.State != driver.Busy {
			t.Fatalf("got %+v, %v, want busy", out, err)
		}
		time.Sleep(time.Second)
		if _, err := d.KeepAlive(t.Context()); err != nil { // what a may have is withdrawn
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		for _, f := range foreign {
			must.OK(t, f.Close(t.Context()))
		}
		time.Sleep(2 * time.Second)
		r.log("the others have gone, c is away: a and b must do")
		var out driver.Outcome
		for range 3 {
			var err error
			if out, err = d.Attempt(t.Context(), c); err == nil && out.State == driver.Granted {
				return
			}
			r.log("attempt: %v, %v; %s", out.State, err, r.holders("x"))
			time.Sleep(time.Second)
			_, _ = d.KeepAlive(t.Context())
		}
		t.Errorf("the lock is free on a and b, and the waiter gets %v", out.State)
	})
}
