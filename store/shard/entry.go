// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// entry is the session that keeps this process's markers on one member. One call is made
// at once.
type entry struct {
	m    *Member
	turn chan struct{} // holds a value while a call uses what is below
	// marked is set while the member has our marker, and for a member that cannot keep one.
	marked atomic.Bool
	// away is set when the member did not answer the last time: no Open waits for it.
	away atomic.Bool
	// until is when the marker ends unless it is kept.
	until atomic.Pointer[time.Time]

	drv    driver.Session // nil if it is not open
	before driver.Session // the last one of the same id
	ttl    time.Duration  // of the session
	id     driver.SessionID
	seq    uint64
	held   map[string]driver.Held // by the name of the marker
}

func newEntry(m *Member) *entry {
	e := &entry{m: m, turn: make(chan struct{}, 1)}
	e.marked.Store(!e.canMark())
	return e
}

// canMark reports whether the member can keep a marker.
func (e *entry) canMark() bool { return e.m.Store.Caps().Reentry }

// errGrace: the member had lost its data and grants nothing yet, to no process.
var errGrace = errors.New("the member grants nothing yet")

// conflict is a mark of another process in the way of ours.
type conflict struct {
	member string
	holder driver.Holder
	mark   mark
}

func (c *conflict) Error() string { return errOtherList(c.member, c.holder, c.mark).Error() }

func (c *conflict) Unwrap() error { return driver.ErrRefused }

// keep opens the session or keeps it alive, and takes the mark if it is not held.
func (e *entry) keep(ctx context.Context, ttl time.Duration, want mark) error {
	if !e.canMark() {
		return nil
	}
	if err := e.lock(ctx); err != nil {
		return err
	}
	defer e.unlock()
	if e.ttl < ttl {
		e.drv = nil // to be opened again, with the same id, for longer
	}
	began := time.Now()
	err := e.keepAlive(ctx)
	if err == nil {
		err = e.open(ctx, ttl)
	}
	if err == nil {
		err = e.take(ctx, want)
	}
	if err == nil {
		end := began.Add(e.ttl)
		e.until.Store(&end)
		e.marked.Store(true)
	}
	e.away.Store(err != nil && !errors.Is(err, errGrace) && !errors.Is(err, driver.ErrRefused))
	return err
}

// outlives reports whether the marker lives at a time though nothing is done until then. A member that
// cannot keep a marker has none that could end.
func (e *entry) outlives(at time.Time) bool {
	until := e.until.Load()
	return !e.canMark() || e.marked.Load() && until != nil && !until.Before(at)
}

// lock waits until no other call uses the entry.
func (e *entry) lock(ctx context.Context) error {
	select {
	case e.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shard: member %s: %w", e.m.Name, ctx.Err())
	}
}

func (e *entry) unlock() { <-e.turn }

// keepAlive keeps the session alive if there is one. If the member ended it or lost its
// data, it is to be opened again.
func (e *entry) keepAlive(ctx context.Context) error {
	if e.drv == nil {
		return nil
	}
	renewal, err := e.drv.KeepAlive(ctx)
	switch {
	case errors.Is(err, driver.ErrGone):
		e.lost()
		return nil
	case errors.Is(err, driver.ErrReset):
		e.drv = nil
		e.marked.Store(false)
		return nil
	}
	for name, h := range e.held {
		if slices.Contains(renewal.Broken, h.Claim.Seq) {
			e.marked.Store(false) // until it is taken again
			e.withdraw(ctx, name)
		}
	}
	return err
}

// lost drops the session: its id is not used again.
func (e *entry) lost() {
	e.drv, e.before, e.ttl, e.id, e.held = nil, nil, 0, driver.SessionID{}, nil
	e.marked.Store(false)
}

// open opens the session if it is not open, and puts back the marks that it had.
func (e *entry) open(ctx context.Context, ttl time.Duration) error {
	if e.drv != nil {
		return nil
	}
	if e.id == (driver.SessionID{}) {
		e.id = driver.NewSessionID()
	}
	drv, _, err := e.m.Store.Open(ctx, driver.OpenRequest{Shard: e.m.Store.Shard(listMarker), ID: e.id, Before: e.before, TTL: ttl})
	if err != nil {
		return err
	}
	e.before = drv
	var held []driver.Held
	for _, h := range e.held {
		held = append(held, h)
	}
	kept, err := drv.Reclaim(ctx, held, true)
	if err != nil {
		return err
	}
	e.drv, e.ttl, e.held = drv, ttl, map[string]driver.Held{}
	for i, h := range held {
		if kept[i] {
			e.held[h.Claim.Name] = h
		}
	}
	return nil
}

// take takes a mark, and then checks that no mark in use contradicts it.
func (e *entry) take(ctx context.Context, want mark) error {
	if _, ok := e.held[want.name]; ok {
		return nil
	}
	e.seq++
	c := want.claim(e.seq)
	out, err := e.drv.Attempt(ctx, &c)
	switch {
	case err != nil:
		e.abandon()
		return err
	case out.State != driver.Granted && out.Grace:
		return errGrace
	case out.State != driver.Granted:
		if h, found := misfit(out.Holders, func(id string) bool { return id == want.id }); found {
			return &conflict{e.m.Name, h, want}
		}
		return fmt.Errorf("shard: member %s: the marker %s is %v: %w", e.m.Name, want.name, out.State, driver.ErrUnavailable)
	}
	e.held[want.name] = driver.Held{Claim: c, Token: out.Token}
	st, err := e.m.Store.Inspect(ctx, want.other)
	if h, found := misfit(st.Holders, want.fits); err == nil && found {
		err = &conflict{e.m.Name, h, want}
	}
	if err != nil {
		e.withdraw(ctx, want.name)
	}
	return err
}

// abandon gives the session up after a call whose outcome is unknown: a mark that it may
// have taken ends with it.
func (e *entry) abandon() {
	drv := e.drv
	e.lost()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), abandonPatience)
		defer cancel()
		_ = drv.Close(ctx)
	}()
}

// abandonPatience bounds the end of a session that was given up.
const abandonPatience = time.Second

// withdraw gives a mark back. Without a session, because the member lost its data and could not
// be opened since, it is enough not to reclaim the mark.
func (e *entry) withdraw(ctx context.Context, name string) {
	h, ok := e.held[name]
	if !ok {
		return
	}
	delete(e.held, name)
	if e.drv == nil {
		return
	}
	if _, err := e.drv.Withdraw(ctx, driver.Withdrawal{Seq: h.Claim.Seq, Name: name}); err != nil {
		e.abandon()
	}
}

// drop gives a mark back, if the entry has it.
func (e *entry) drop(ctx context.Context, name string) {
	if e.lock(ctx) != nil {
		return // the mark ends with the session
	}
	defer e.unlock()
	e.withdraw(ctx, name)
}

// close ends the session if it is not needed any more when no other call uses it.
func (e *entry) close(ctx context.Context, idle func() bool) {
	if e.lock(ctx) != nil {
		return
	}
	defer e.unlock()
	if e.drv == nil || !idle() {
		return
	}
	_ = e.drv.Close(ctx) // or it ends by its TTL
	e.lost()
}
