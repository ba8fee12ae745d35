// SPDX-License-Identifier: Apache-2.0

package tfstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
)

// Lock is who has locked a state.
type Lock struct {
	// ID is the id that Terraform chose.
	ID string `json:"id"`
	// User is the user of the server that locked.
	User string `json:"user"`
	// Token is that of the lock in the store.
	Token fencelock.Token `json:"token,string"`
	// Info is what Terraform reported of itself, for the next one that finds the state locked.
	Info  json.RawMessage `json:"info"`
	Since time.Time       `json:"since"`
	// Last is what was written last under this lock.
	Last Version `json:"last,omitzero"`
}

// Version is one state. Terraform counts the states of a lineage with a serial.
type Version struct {
	File    string `json:"file"`
	Lineage string `json:"lineage,omitempty"`
	Serial  uint64 `json:"serial,omitempty"`
}

// Unlocked is who unlocked a state last, and which lock.
type Unlocked struct {
	ID string `json:"id"`
	By string `json:"by"`
}

// Record is what is kept beside a state. The methods decide, and change nothing else.
type Record struct {
	Name string `json:"name"`
	// Fence is the newest token that has locked the state.
	Fence fence.Mark `json:"fence"`
	Lock  *Lock      `json:"lock,omitempty"`
	// Unlocked lets an unlock be repeated when its answer was lost.
	Unlocked Unlocked `json:"unlocked,omitzero"`
	// State is the file of the current version, empty before the first.
	State string `json:"state,omitempty"`
}

// ErrNotLocked: there is no lock on record. Nothing was changed.
var ErrNotLocked = errors.New("the state is not locked")

// ErrOld: a later version was written under the same lock. Nothing was changed.
var ErrOld = errors.New("a later version of the state was written under the same lock")

// LockedError is returned if the lock on record is another one. Nothing was changed.
type LockedError struct{ Lock Lock }

func (e *LockedError) Error() string {
	return fmt.Sprintf("the state is locked by %s, since %s", e.Lock.User, e.Lock.Since.Format(time.RFC3339))
}

// Take locks the state, if it is not locked and no token as new has locked it: an equal one is
// that of a lock that was unlocked since. To take it again with the id that is on record is
// no change.
func (r *Record) Take(l Lock) error {
	if r.Lock != nil {
		if r.Lock.ID == l.ID && r.Lock.User == l.User {
			return nil
		}
		return &LockedError{*r.Lock}
	}
	given := fence.Mark{Lock: r.Name, Token: l.Token, Holder: l.User}
	if err := fence.Check(r.Fence, given); err != nil {
		return err
	}
	if r.Fence.Token != 0 && given.Token.Base() <= r.Fence.Token.Base() {
		return fmt.Errorf("%w: %v has locked the state before, and was unlocked", fence.ErrStale, r.Fence)
	}
	r.Fence, r.Lock = given, &l
	return nil
}

// Renew keeps the token with which a server took the lock of the store again.
func (r *Record) Renew(id string, token fencelock.Token) error {
	if err := r.Admits(id); err != nil {
		return err
	}
	given := fence.Mark{Lock: r.Name, Token: token, Holder: r.Lock.User}
	if err := fence.Check(r.Fence, given); err != nil {
		return err
	}
	r.Fence, r.Lock.Token = given, token
	return nil
}

// Admits reports why a caller with this id may not write, nil if it may.
func (r *Record) Admits(id string) error {
	switch {
	case r.Lock == nil:
		return ErrNotLocked
	case r.Lock.ID != id:
		return &LockedError{*r.Lock}
	}
	return nil
}

// Write makes a version the current one. A retry of the last write is admitted, and a write that
// was retried elsewhere and comes after the next one is not. Only writes under one lock are
// compared, because an operator may push an older state.
func (r *Record) Write(v Version) error {
	switch {
	case r.Lock == nil:
		return ErrNotLocked
	case v.Lineage != "" && v.Lineage == r.Lock.Last.Lineage && v.Serial < r.Lock.Last.Serial:
		return ErrOld
	}
	r.Lock.Last, r.State = v, v.File
	return nil
}

// Give removes the lock with this id, for a user.
func (r *Record) Give(id, by string) error {
	if err := r.Admits(id); err != nil {
		return err
	}
	r.Lock, r.Unlocked = nil, Unlocked{id, by}
	return nil
}

// Gave reports whether a user has unlocked with this id, and no lock was unlocked since.
func (r *Record) Gave(id, by string) bool { return r.Unlocked == Unlocked{id, by} && by != "" }

// Clear lets the state be none. It needs a state that is not locked, because Terraform
// sends no id with it.
func (r *Record) Clear() error {
	if r.Lock != nil {
		return &LockedError{*r.Lock}
	}
	r.State = ""
	return nil
}
