// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fencelock/fencelock/driver"
)

// An Option changes what one handle asks for. The everyday call needs none. A
// bad value makes every acquisition of the handle fail.
type Option func(*wish) error

// wish collects what a handle asks for.
type wish struct{ terms driver.Terms }

// FixedLease makes the lease end d after its grant, whatever happens: it is not
// kept alive beyond that, and nothing has to be done to end it. Without it a
// lease lives until it is unlocked or its process dies.
func FixedLease(d time.Duration) Option {
	return func(w *wish) error {
		if d <= 0 {
			return fmt.Errorf("FixedLease(%v): it must be positive", d)
		}
		return w.end(d)
	}
}

// MaxHold bounds a lease that somebody forgot to unlock: after d it is lost,
// and its context ends with ErrExpired. Use it as a safety net, far above what
// the work takes.
func MaxHold(d time.Duration) Option {
	return func(w *wish) error {
		if d <= 0 {
			return fmt.Errorf("MaxHold(%v): it must be positive", d)
		}
		return w.end(d)
	}
}

func (w *wish) end(d time.Duration) error {
	if w.terms.MaxHold != 0 {
		return errors.New("FixedLease and MaxHold were both given; the shorter one is enough")
	}
	w.terms.MaxHold = d
	return nil
}

// MinHold keeps the lock taken for at least d after its grant, even if it is
// unlocked or its process dies before. Cron jobs want it: a job that takes a
// millisecond must not run again on a replica whose clock is a second late.
func MinHold(d time.Duration) Option {
	return func(w *wish) error {
		if d <= 0 {
			return fmt.Errorf("MinHold(%v): it must be positive", d)
		}
		w.terms.MinHold = d
		return nil
	}
}

// ReentrantAs makes acquisitions with the same id re-entrant wherever they are
// made, in other processes too: they share the lock and its token, and it is
// free when the last has unlocked. It is for work that moves between processes
// under an id of its own. Inside one process re-entry by context is simpler.
func ReentrantAs(id string) Option {
	return func(w *wish) error {
		if id == "" {
			return errors.New("ReentrantAs: the id is empty")
		}
		if w.terms.Mode == driver.Shared {
			return errors.New("ReentrantAs is for exclusive locks; shared ones do not exclude each other")
		}
		w.terms.Reentry = id
		return nil
	}
}

// Reason tells people why the lock is wanted. It is part of the holder record.
func Reason(why string) Option {
	return func(w *wish) error { w.terms.Record.Reason = why; return nil }
}

// Label adds a pair to the holder record.
func Label(key, value string) Option {
	return func(w *wish) error {
		labels := maps.Clone(w.terms.Record.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
		w.terms.Record.Labels = labels
		return nil
	}
}

// handle is what Mutex, RWMutex and Semaphore have in common: a name and what
// to ask for. It does no I/O.
type handle struct {
	c    *Client
	sh   *shard
	name string
	wish *wish
	err  error
}

// handle makes a handle; want is what the kind of lock asks for.
func (c *Client) handle(name string, want driver.Terms, opts []Option) handle {
	if err := checkName(name); err != nil {
		return handle{c: c, name: name, err: err}
	}
	if len(opts) == 0 && want == (driver.Terms{Weight: 1}) {
		return handle{c: c, sh: c.shard(name), name: name, wish: c.plain}
	}
	rec := *c.record
	want.Record = &rec
	w := &wish{terms: want}
	for _, opt := range opts {
		if err := opt(w); err != nil {
			return handle{c: c, name: name, err: fmt.Errorf("fencelock: %q: %w", name, err)}
		}
	}
	return handle{c: c, sh: c.shard(name), name: name, wish: w, err: c.supported(name, w)}
}

// supported says early what the store cannot do.
func (c *Client) supported(name string, w *wish) error {
	missing := ""
	switch t := &w.terms; {
	case t.Mode == driver.Shared && !c.caps.Shared:
		missing = "shared and weighted locks"
	case t.Reentry != "" && !c.caps.Reentry:
		missing = "ReentrantAs"
	case (t.MinHold > 0 || t.MaxHold > 0) && !c.caps.Hold:
		missing = "FixedLease, MinHold and MaxHold"
	case t.MaxHold > 0 && t.MinHold > t.MaxHold:
		return fmt.Errorf("fencelock: %q: MinHold(%v) is longer than the lease may be (%v)", name, t.MinHold, t.MaxHold)
	default:
		if err := checkRecord(t.Record); err != nil {
			return fmt.Errorf("fencelock: %q: %w", name, err)
		}
		return nil
	}
	return &Error{Op: "lock", Name: name, Engine: c.caps.Engine, Err: ErrUnsupported,
		Hint: "this store has no " + missing}
}

// terms returns what to send for an acquisition under ctx.
func (h *handle) terms(ctx context.Context) *driver.Terms {
	parent := h.c.opts.Hooks.TraceParent
	if parent == nil {
		return &h.wish.terms
	}
	t, rec := h.wish.terms, *h.wish.terms.Record
	if rec.Trace = parent(ctx); len(rec.Trace) > maxTrace {
		rec.Trace = ""
	}
	t.Record = &rec
	return &t
}

// checkName keeps names printable and within what every engine can store.
func checkName(name string) error {
	if name == "" || len(name) > driver.MaxNameBytes {
		return fmt.Errorf("fencelock: a lock name has 1 to %d bytes, not %d", driver.MaxNameBytes, len(name))
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("fencelock: lock name %q is not UTF-8", name)
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("fencelock: lock name %q has a control character", name)
		}
	}
	return nil
}

const (
	// maxTrace is more than a W3C traceparent has; anything longer is none.
	maxTrace = 64
	// traceRoom is kept free for it in every record.
	traceRoom = maxTrace + len(`"trace":"",`)
)

// checkRecord keeps holder records small: every waiter and every list reads them.
func checkRecord(r *driver.Record) error {
	b, err := json.Marshal(r)
	if most := driver.MaxRecordBytes - traceRoom; err == nil && len(b) > most {
		err = fmt.Errorf("owner, reason and labels take %d bytes, at most %d are kept: shorten them", len(b), most)
	}
	return err
}

// sameWish says whether a grant made for a can be passed to a waiter who asked
// for b: people looking at the holder record must not be misled. The trace is
// left out: it names the first of those the grant was passed along.
func sameWish(a, b *driver.Terms) bool {
	if a == b {
		return true
	}
	return a.Mode == b.Mode && a.Weight == b.Weight && a.Limit == b.Limit && a.Reentry == b.Reentry &&
		a.MinHold == b.MinHold && a.MaxHold == b.MaxHold &&
		a.Record.Owner == b.Record.Owner && a.Record.Reason == b.Record.Reason &&
		maps.Equal(a.Record.Labels, b.Record.Labels)
}
