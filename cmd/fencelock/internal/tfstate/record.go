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
}

// Record is what is kept beside a state. The methods decide, and change nothing else.
type Record struct {
	Name string `json:"name"`
	// Fence is the newest token that has locked the state.
	Fence fence.Mark `json:"fence"`
	Lock  *Lock      `json:"lock,omitempty"`
	// State is the file of the current version, empty before the first.
	State string `json:"state,omitempty"`
}

// ErrNotLocked: there is no lock on record. Nothing was changed.
var ErrNotLocked = errors.New("the state is not locked")

// LockedError is returned if the lock on record is another one. Nothing was changed.
type LockedError struct{ Lock Lock }

func (e *LockedError) Error() string {
	return fmt.Sprintf("the state is locked by %s, since %s", e.Lock.User, e.Lock.Since.Format(time.RFC3339))
}

// Take locks the state, if it is not locked and no newer token has locked it. To take it
// again with the id that is on record is no change.
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

// Give removes the lock with this id.
func (r *Record) Give(id string) error {
	if err := r.Admits(id); err != nil {
		return err
	}
	r.Lock = nil
	return nil
}

// Clear lets the state be none. It needs a state that is not locked, because Terraform
// sends no id with it.
func (r *Record) Clear() error {
	if r.Lock != nil {
		return &LockedError{*r.Lock}
	}
	r.State = ""
	return nil
}
