// SPDX-License-Identifier: Apache-2.0

package zkstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/zkstore"
)

// patience is for what must happen, however slow the machine is.
const patience = 60 * time.Second

// process is a client with its own store and valve.
type process struct {
	*fencelock.Client
	store *zkstore.Store
	valve *servers.Valve
}

func newProcess(t *testing.T, addrs []string, ttl time.Duration) *process {
	t.Helper()
	p := &process{valve: &servers.Valve{}}
	var err error
	p.store, err = zkstore.New(addrs, &zkstore.Options{TickTime: servers.TickTime, MaxTTL: time.Minute, Dial: p.valve.Dial})
	must.OK(t, err)
	p.Client, err = fencelock.New(p.store, &fencelock.Options{TTL: ttl, Require: fencelock.Correctness, StoreTimeout: patience})
	must.OK(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		p.Close(ctx)
		p.store.Close()
	})
	return p
}

func (p *process) lock(t *testing.T, name string) *fencelock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := p.Mutex(name).Lock(ctx)
	must.OK(t, err)
	return l
}

// locked is what a Lock in the background came to.
type locked struct {
	lease *fencelock.Lease
	err   error
}

// waiting locks in the background.
func (p *process) waiting(t *testing.T, name string) <-chan locked {
	got := make(chan locked, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		l, err := p.Mutex(name).Lock(ctx)
		got <- locked{l, err}
	}()
	return got
}

// granted waits for a lock that is taken in the background.
func granted(t *testing.T, next <-chan locked) *fencelock.Lease {
	t.Helper()
	got := <-next
	if got.err != nil {
		t.Fatalf("the next client did not get the lock: %v", got.err)
	}
	return got.lease
}

// serverIn waits until a server of an ensemble is in a mode: under load there may be an election at any time.
func serverIn(t *testing.T, e *servers.Ensemble, mode string) (found *servers.EnsembleServer) {
	t.Helper()
	err := servers.Await("a server is "+mode, func() bool {
		i := slices.IndexFunc(e.Servers, func(s *servers.EnsembleServer) bool { return s.Mode() == mode })
		if i >= 0 {
			found = e.Servers[i]
		}
		return i >= 0
	})
	must.OK(t, err)
	return found
}

// TestLeaderKilled: the lease of a holder outlives the leader, no other client gets the
// lock in the meantime, and tokens rise across the change of leaders.
func TestLeaderKilled(t *testing.T) {
	e := start(t, 3)
	holder, other := newProcess(t, e.Addrs(), 40*time.Second), newProcess(t, e.Addrs(), 40*time.Second)
	l := holder.lock(t, "x")
	next := other.waiting(t, "x")
	serverIn(t, e, "leader").Kill()
	// Something that a majority must agree to: the ensemble has a leader again.
	holder.lock(t, "y")
	if err := l.Err(); err != nil {
		t.Fatalf("the lease did not outlive the leader: %v", err)
	}
	select {
	case got := <-next:
		t.Fatalf("another got %v, %v beside token %v", got.lease, got.err, l.Token())
	default:
	}
	must.OK(t, l.Unlock(t.Context()))
	if got := granted(t, next); got.Token() <= l.Token() {
		t.Errorf("the next lease is %v, want one with a token above %v", got, l.Token())
	}
}

// TestServerPaused: the server of a holder's connection stands still. The holder goes
// on at another one, with its lease.
func TestServerPaused(t *testing.T) {
	e := start(t, 3)
	holder := newProcess(t, e.Addrs(), 20*time.Second)
	l := holder.lock(t, "x")
	for _, s := range e.Servers {
		if s.Received() > 0 { // it has the holder's connection
			defer s.Pause()()
		}
	}
	other := holder.lock(t, "y")
	if err := errors.Join(l.Err(), other.Err()); err != nil {
		t.Errorf("the leases did not outlive the pause of a server: %v", err)
	}
}

// TestMinorityKeepsNothingAlive: a server that the others have lost answers reads for a
// while. A session must not count that as life.
func TestMinorityKeepsNothingAlive(t *testing.T) {
	e := start(t, 3)
	alone := e.Servers[0]
	if alone.Mode() == "leader" {
		alone = e.Servers[1]
	}
	store, err := zkstore.New([]string{alone.Addr}, &zkstore.Options{TickTime: servers.TickTime, MaxTTL: time.Minute})
	must.OK(t, err)
	defer store.Close()
	ses, _, err := store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 30 * time.Second})
	must.OK(t, err)
	if _, err := ses.KeepAlive(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range e.Servers {
		if s != alone {
			defer s.Pause()()
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if renewal, err := ses.KeepAlive(ctx); !errors.Is(err, driver.ErrUnknown) && !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a minority kept a session alive: %v, %v", renewal, err)
	}
}

// TestCutOffHolderIsNotifiedFirst: a holder that loses the ensemble for longer than its TTL
// is notified before another gets the lock.
func TestCutOffHolderIsNotifiedFirst(t *testing.T) {
	e := start(t, 1)
	holder, other := newProcess(t, e.Addrs(), 2*time.Second), newProcess(t, e.Addrs(), 2*time.Second)
	l := holder.lock(t, "x")
	next := other.waiting(t, "x")
	heal := holder.valve.Shut()
	defer heal()
	got := granted(t, next)
	select {
	case <-l.Context().Done():
	default:
		t.Fatalf("another has token %v and the holder of %v was not notified", got.Token(), l.Token())
	}
	if err := context.Cause(l.Context()); !errors.Is(err, fencelock.ErrLost) {
		t.Errorf("the holder got %v, want ErrLost", err)
	}
	if got.Token() <= l.Token() {
		t.Errorf("the next token is %v, want one above %v", got.Token(), l.Token())
	}
}

// TestAllServersRestart: an ensemble whose servers all stop and start again has lost no
// data, and its tokens go on.
func TestAllServersRestart(t *testing.T) {
	e := start(t, 1)
	p := newProcess(t, e.Addrs(), 40*time.Second)
	before := p.lock(t, "x")
	must.OK(t, e.Servers[0].Restart())
	after := p.lock(t, "y")
	if err := before.Err(); err != nil {
		t.Errorf("the lease did not outlive the restart: %v", err)
	}
	if after.Token() <= before.Token() {
		t.Errorf("token %v after the restart, %v before", after.Token(), before.Token())
	}
}

// TestOneHeartbeatCarriesEveryLease counts what the server receives.
func TestOneHeartbeatCarriesEveryLease(t *testing.T) {
	const leases, beats = 1000, 3
	e := start(t, 1)
	store, err := zkstore.New(e.Addrs(), &zkstore.Options{TickTime: servers.TickTime, MaxTTL: time.Minute})
	must.OK(t, err)
	defer store.Close()
	ses, renewal, err := store.Open(t.Context(), driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 6 * time.Second})
	must.OK(t, err)
	for i := range leases {
		out, err := ses.Attempt(t.Context(), &driver.Claim{Seq: uint64(i + 1), Name: fmt.Sprint("n", i), Queue: true,
			Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
		if err != nil || out.State != driver.Granted {
			t.Fatalf("lease %d: %v, %v", i, out.State, err)
		}
		if i%20 == 0 { // often enough for a slow machine
			if renewal, err = ses.KeepAlive(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := e.Servers[0].Received()
	tick := time.NewTicker(renewal.TTL / 3)
	defer tick.Stop()
	for range beats {
		<-tick.C
		if _, err := ses.KeepAlive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := e.Servers[0].Received() - before; got != beats {
		t.Errorf("the server received %d requests in %d thirds of the TTL for %d leases, want one in each", got, beats, leases)
	}
}
