// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fencelock/fencelock/driver"
)

// A LockOption changes what one handle asks for. The everyday call needs none. A
// bad value makes every acquisition of the handle fail. The zero LockOption changes
// nothing.
type LockOption struct{ apply func(*config) error }

// config collects what a handle asks for.
type config struct{ terms driver.Terms }

// MaxHold ends the lease d after its grant, whatever happens: the lease is lost and
// its context ends with [LossMaxHold]. Without it a lease lives until it is unlocked
// or its process dies. Use it as a safety net against a missing unlock,
// far above what the work takes, or to hold a lock for a fixed time. A lease that
// re-enters ends with the outer one: MaxHold and MinHold have no effect on it.
func MaxHold(d time.Duration) LockOption {
	return LockOption{func(w *config) error {
		if d <= 0 {
			return fmt.Errorf("MaxHold(%v): it must be positive", d)
		}
		w.terms.MaxHold = d
		return nil
	}}
}

// MinHold keeps the lock taken for at least d after its grant, even if it is
// unlocked or its process dies before. Cron jobs want it: a job that takes a
// millisecond must not run again on a replica whose clock is a second late.
//
// If the store loses its data while the lease is held, MinHold begins again with
// the reclaim. After the unlock no process holds the lock, so none reclaims it: it
// is free when the grace period ends. Only a durable store keeps it taken.
func MinHold(d time.Duration) LockOption {
	return LockOption{func(w *config) error {
		if d <= 0 {
			return fmt.Errorf("MinHold(%v): it must be positive", d)
		}
		w.terms.MinHold = d
		return nil
	}}
}

// Linger keeps the lock in this process for up to d after it is unlocked, in case the process
// wants it again: locking it then takes no round trip. It is for names that stay with a process.
//
// The lock is given back when another process waits for it or tries it, d after the first unlock,
// after 255 locks without a round trip, when a renewal fails, and when the client is closed.
//
// Linger is for Mutex and LockAll, without MinHold, MaxHold and ReentrantAs, with d up to
// [Options.TTL], on a store with [Guarantees.Linger]. An unlock that lingers does not ask the
// store, so it does not report a ForceUnlock. docs/how-it-works.md has the details.
func Linger(d time.Duration) LockOption {
	return LockOption{func(w *config) error {
		if d <= 0 {
			return fmt.Errorf("Linger(%v): it must be positive", d)
		}
		if w.terms.Mode == driver.Shared {
			return errors.New("Linger is for exclusive locks; leave it out for RWMutex and Semaphore")
		}
		w.terms.Linger = d
		return nil
	}}
}

// ReentrantAs makes acquisitions with the same id re-entrant wherever they are
// made, in other processes too: they share the lock and its token, and it is
// free when the last has unlocked. ReentrantAs is for work that has its own id and moves
// between processes. Inside one process re-entry by context is simpler. ReentrantAs is
// for exclusive locks; Once and Election refuse it. The id is bounded as names are.
func ReentrantAs(id string) LockOption {
	return LockOption{func(w *config) error {
		if err := checkText("the id of ReentrantAs", id); err != nil {
			return err
		}
		if w.terms.Mode == driver.Shared {
			return errors.New("ReentrantAs is for exclusive locks; shared ones do not exclude each other")
		}
		w.terms.Reentry = id
		return nil
	}}
}

// Reason sets why the lock is wanted, for people. It is part of the holder record.
func Reason(why string) LockOption {
	return LockOption{func(w *config) error { w.terms.Record.Reason = why; return nil }}
}

// OwnedBy names the holder for people, instead of [Options.Owner]. It is for a program that
// locks for others, such as a server: who waits for whom is found by owners.
func OwnedBy(owner string) LockOption {
	return LockOption{func(w *config) error { w.terms.Record.Owner = owner; return nil }}
}

// Label adds a pair to the holder record.
func Label(key, value string) LockOption {
	return LockOption{func(w *config) error {
		labels := maps.Clone(w.terms.Record.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
		w.terms.Record.Labels = labels
		return nil
	}}
}

// checkName keeps names printable and within what every store can keep.
func checkName(name string) error {
	if err := checkText("a lock name", name); err != nil {
		return fmt.Errorf("fencelock: %w", err)
	}
	return nil
}

// checkText is for what stores keep as part of a key.
func checkText(what, text string) error {
	if text == "" || len(text) > driver.MaxNameBytes {
		return fmt.Errorf("%s has 1 to %d bytes, not %d", what, driver.MaxNameBytes, len(text))
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s must be UTF-8: %q", what, text)
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("%s must not have a control character: %q", what, text)
	}
	return nil
}

const (
	// maxTrace is more than a W3C traceparent has; anything longer is not one.
	maxTrace = 64
	// traceRoom is kept free for it in every record.
	traceRoom = maxTrace + len(`"trace":"",`)
)

// checkRecord keeps holder records small: every waiter and every list reads them.
// A text that is not UTF-8 would not come back from the store as it was given.
func checkRecord(r *driver.Record) error {
	texts := []string{r.Owner, r.Reason}
	for key, value := range r.Labels {
		texts = append(texts, key, value)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return fmt.Errorf("owner, reason and labels must be UTF-8: %q", text)
		}
	}
	b, err := json.Marshal(r)
	if most := driver.MaxRecordBytes - traceRoom; err == nil && len(b) > most {
		err = fmt.Errorf("owner, reason and labels take %d bytes, at most %d are kept: shorten them", len(b), most)
	}
	return err
}
