// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// fleetTTL is longer than a failover on a busy machine.
const fleetTTL = 20 * time.Second

// fleet is 12 processes that share names, and keep a lease each.
type fleet struct {
	t       *testing.T
	p       pair
	b       *through
	ctx     context.Context
	members []*member

	holders                 [3]atomic.Int64 // of the shared names
	overlaps, refused, lost atomic.Int64

	mu      sync.Mutex
	granted time.Time // when a shared lock was granted last
	gap     time.Duration
}

// member is one process: its own store, client and lease, and a goroutine that locks shared names.
type member struct {
	f     *fleet
	id    int
	store *sqlstore.Store
	db    *sql.DB
	locks *fencelock.Client
	own   *fencelock.Lease
	stop  context.CancelFunc
	work  sync.WaitGroup
}

// start starts a process.
func (m *member) start(grace bool) {
	f := m.f
	opts := f.b.opts
	opts.Grace = grace
	var err error
	m.db, err = sql.Open(f.p.kind.driver, f.p.kind.source(f.b.proxy.Port))
	must.OK(f.t, err)
	m.db.SetMaxOpenConns(5)
	m.store, err = sqlstore.New(m.db, &opts)
	must.OK(f.t, err)
	m.locks, err = fencelock.New(m.store, &fencelock.Options{TTL: fleetTTL, StoreTimeout: time.Minute})
	must.OK(f.t, err)
	m.own = lock(f.t, m.locks, fmt.Sprint("own/", m.id))
	ctx, stop := context.WithCancel(f.ctx)
	m.stop = stop
	m.work.Go(func() {
		for ctx.Err() == nil {
			m.turn(ctx, rand.IntN(len(f.holders)))
		}
	})
}

// turn locks a shared name for a moment.
func (m *member) turn(ctx context.Context, n int) {
	f := m.f
	l, err := m.locks.Mutex(fmt.Sprint("shared/", n)).Lock(ctx)
	if errors.Is(err, driver.ErrRefused) {
		f.refused.Add(1)
	}
	if err != nil {
		return
	}
	if f.holders[n].Add(1) != 1 {
		f.overlaps.Add(1)
	}
	f.note()
	pause := time.NewTimer(rand.N(4 * time.Millisecond))
	<-pause.C
	if l.Err() != nil {
		f.lost.Add(1)
	}
	f.holders[n].Add(-1)
	_ = l.Unlock(context.WithoutCancel(ctx)) // an unlock without an answer is repeated
}

// note notes a grant.
func (f *fleet) note() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); f.granted.IsZero() {
		f.granted = now
	} else {
		f.gap, f.granted = max(f.gap, now.Sub(f.granted)), now
	}
}

// longestGap returns for how long no shared lock was granted, since it was asked last.
func (f *fleet) longestGap() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	gap := max(f.gap, time.Since(f.granted))
	f.gap = 0
	return gap
}

// end ends a process in order.
func (m *member) end() {
	m.stop()
	m.work.Wait()
	if m.own.Err() != nil {
		m.f.lost.Add(1)
	}
	must.OK(m.f.t, m.own.Unlock(ctxb))
	must.OK(m.f.t, m.locks.Close(ctxb))
	must.OK(m.f.t, m.store.Close())
	must.OK(m.f.t, m.db.Close())
}

// TestGraceByARollingDeployment: twelve processes under load get grace one after the other. Then a
// replica takes over that lacks the last commits. It is not parallel to other tests: it measures for
// how long no lock is granted.
func TestGraceByARollingDeployment(t *testing.T) {
	for _, p := range pairs {
		t.Run(p.kind.name, func(t *testing.T) {
			t.Parallel()
			primary := need(t, p.primary)
			t.Cleanup(primary.Stop)
			ctx, cancel := context.WithTimeout(ctxb, 4*time.Minute)
			defer cancel()
			p.kind.opts = sqlstore.Options{MaxTTL: fleetTTL}
			f := &fleet{t: t, p: p, b: p.kind.behind(t, primary), ctx: ctx}
			f.roll(primary)
			replica, stream := f.follow(primary)
			f.lose(primary, replica, stream)
			for _, m := range f.members {
				m.end()
			}
			for name, v := range map[string]*atomic.Int64{"refused": &f.refused, "overlaps": &f.overlaps, "leases-lost": &f.lost} {
				figure.Print("grace-rolling-"+name+f.suffix(), v.Load(), figure.Exactly(0))
				if v.Load() != 0 {
					t.Errorf("grace-rolling-%s%s is %d", name, f.suffix(), v.Load())
				}
			}
		})
	}
}

// suffix ends the names of the figures.
func (f *fleet) suffix() string {
	if f.p.kind.name == "postgres" {
		return "-pg"
	}
	return "-" + f.p.kind.name
}

// roll starts the fleet without grace, and restarts one process after the other with it.
func (f *fleet) roll(primary *servers.Server) {
	db := f.p.kind.connect(f.t, primary.Port)
	must.OK(f.t, visit(f.b))
	must.OK(f.t, exec(db, "UPDATE "+f.b.opts.Prefix()+"incarnation SET incarnation = incarnation - 3600000000")) // a namespace of an hour ago
	for i := range 12 {
		m := &member{f: f, id: i}
		m.start(false)
		f.members = append(f.members, m)
	}
	var before, after int64
	graceEnd := "SELECT grace_end FROM " + f.b.opts.Prefix() + "incarnation"
	must.OK(f.t, db.QueryRow(graceEnd).Scan(&before))
	f.longestGap()
	for _, m := range f.members {
		m.end()
		m.start(true)
	}
	// A busy machine may pause for a second; only a grace period lasts for a TTL.
	gap := f.longestGap()
	figure.Print("grace-rolling-gap-seconds"+f.suffix(), gap.Seconds(), figure.AtMost(1))
	must.OK(f.t, db.QueryRow(graceEnd).Scan(&after))
	if gap > fleetTTL/2 || after != before {
		f.t.Errorf("for %v no lock was granted; the grace period ended at %d before, and ends at %d", gap, before, after)
	}
	all, err := f.b.Settings(ctxb)
	if err != nil || all[0].Value != "true" || all[1].Value != fleetTTL.String() {
		f.t.Errorf("after it the settings are %+v, %v", all, err)
	}
}

// follow starts a replica and waits until it has the settings.
func (f *fleet) follow(primary *servers.Server) (*servers.Server, *servers.Proxy) {
	stream, err := servers.NewProxy(primary.Addr)
	must.OK(f.t, err)
	f.t.Cleanup(stream.Close)
	replica := f.p.follow(f.t, primary, stream.Port)
	f.t.Cleanup(replica.Stop)
	f.p.arrived(f.t, replica, f.b.opts.Prefix()+"incarnation WHERE grace = 1")
	return replica, stream
}

// lose lets the replica take over without the last commits. All leases are kept, those that it lacks
// too, and the grace period is as long as max_ttl.
func (f *fleet) lose(primary, replica *servers.Server, stream *servers.Proxy) {
	stream.Close() // it lags from here on
	late := lock(f.t, f.members[0].locks, "late")
	primary.Kill()
	f.p.promote(f.t, replica)
	f.b.proxy.Retarget(replica.Addr)
	putBack(f.t, f.b, late)
	st, err := f.b.Inspect(ctxb, "late")
	if err != nil || st.Grace == 0 || st.Grace > fleetTTL {
		f.t.Errorf("the grace period is %v, %v, want up to %v", st.Grace, err, fleetTTL)
	}
	for _, m := range f.members {
		putBack(f.t, f.b, m.own)
	}
	after := f.grants()
	eventually(f.t, "that locks are granted after the grace period", func() bool { return f.grants().After(after) })
	if late.Err() != nil {
		f.lost.Add(1)
	}
	must.OK(f.t, late.Unlock(ctxb))
}

// grants returns when a shared lock was granted last.
func (f *fleet) grants() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.granted
}
