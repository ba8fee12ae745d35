// SPDX-License-Identifier: Apache-2.0

package tfstate

import (
	"errors"
	"testing"

	"github.com/fencelock/fencelock/fence"
)

// TestRecordDecides: which lock may be put on record, written with and removed.
func TestRecordDecides(t *testing.T) {
	ann := Lock{ID: "a1", User: "ann", Token: 512}
	isLocked := func(err error) bool { var l *LockedError; return errors.As(err, &l) && l.Lock.ID == "a1" }
	isNotLocked := func(err error) bool { return errors.Is(err, ErrNotLocked) }
	isStale := func(err error) bool { return errors.Is(err, fence.ErrStale) }
	isFine := func(err error) bool { return err == nil }
	free := Record{Name: "prod", Fence: fence.Mark{Lock: "prod", Token: 512}}
	held := Record{Name: "prod", Fence: fence.Mark{Lock: "prod", Token: 512}, Lock: &ann}
	for what, tt := range map[string]struct {
		record Record
		do     func(*Record) error
		want   func(error) bool
		locked string // the id on record after that
	}{
		"first":                                  {Record{Name: "prod"}, func(r *Record) error { return r.Take(ann) }, isFine, "a1"},
		"again":                                  {held, func(r *Record) error { return r.Take(ann) }, isFine, "a1"},
		"same id, other user":                    {held, func(r *Record) error { return r.Take(Lock{ID: "a1", User: "eve", Token: 768}) }, isLocked, "a1"},
		"other id":                               {held, func(r *Record) error { return r.Take(Lock{ID: "b7", User: "ann", Token: 768}) }, isLocked, "a1"},
		"after an unlock":                        {free, func(r *Record) error { return r.Take(Lock{ID: "b7", User: "bob", Token: 768}) }, isFine, "b7"},
		"by a server that was paused":            {free, func(r *Record) error { return r.Take(Lock{ID: "b7", User: "bob", Token: 256}) }, isStale, ""},
		"late, with the token that was unlocked": {free, func(r *Record) error { return r.Take(ann) }, isStale, ""},
		"late, after a local handoff":            {free, func(r *Record) error { return r.Take(Lock{ID: "a1", User: "ann", Token: 513}) }, isStale, ""},
		"without a token":                        {free, func(r *Record) error { return r.Take(Lock{ID: "b7", User: "bob"}) }, func(err error) bool { return errors.Is(err, fence.ErrNoToken) }, ""},
		"taken over":                             {held, func(r *Record) error { return r.Renew("a1", 1024) }, isFine, "a1"},
		"taken over late":                        {held, func(r *Record) error { return r.Renew("a1", 256) }, isStale, "a1"},
		"taken over when unlocked":               {free, func(r *Record) error { return r.Renew("a1", 1024) }, isNotLocked, ""},
		"write":                                  {held, func(r *Record) error { return r.Admits("a1") }, isFine, "a1"},
		"write of another":                       {held, func(r *Record) error { return r.Admits("b7") }, isLocked, "a1"},
		"write after an unlock":                  {free, func(r *Record) error { return r.Admits("a1") }, isNotLocked, ""},
		"write without an id":                    {free, func(r *Record) error { return r.Admits("") }, isNotLocked, ""},
		"unlock":                                 {held, func(r *Record) error { return r.Give("a1", "ann") }, isFine, ""},
		"unlock of another":                      {held, func(r *Record) error { return r.Give("b7", "ann") }, isLocked, "a1"},
		"remove a locked state":                  {held, (*Record).Clear, isLocked, "a1"},
		"remove":                                 {free, (*Record).Clear, isFine, ""},
	} {
		r := tt.record
		if r.Lock != nil {
			l := *r.Lock
			r.Lock = &l
		}
		err := tt.do(&r)
		id := ""
		if r.Lock != nil {
			id = r.Lock.ID
		}
		if !tt.want(err) || id != tt.locked {
			t.Errorf("%s: got %v, and %q is on record", what, err, id)
		}
		if r.Lock != nil && r.Lock.Token != r.Fence.Token {
			t.Errorf("%s: the lock on record has %v, the fence is %v", what, r.Lock.Token, r.Fence)
		}
	}
}

// TestUnlockIsRepeated: the user that unlocked may ask again, even when another has locked.
func TestUnlockIsRepeated(t *testing.T) {
	r := Record{Name: "prod", Lock: &Lock{ID: "a1", User: "ann"}}
	if r.Gave("a1", "ann") || r.Gave("", "") {
		t.Error("nothing was unlocked yet")
	}
	if err := r.Give("a1", "op"); err != nil {
		t.Fatal(err)
	}
	if !r.Gave("a1", "op") || r.Gave("a1", "ann") || r.Gave("b7", "op") {
		t.Errorf("got %+v", r.Unlocked)
	}
}

// TestWritesOfOneLockAreInOrder: a write that was retried elsewhere does not replace the next one.
func TestWritesOfOneLockAreInOrder(t *testing.T) {
	wrote := &Lock{ID: "a1", Last: Version{Lineage: "x", Serial: 6}}
	for what, tt := range map[string]struct {
		lock *Lock
		v    Version
		want error
	}{
		"a retry":                      {wrote, Version{Lineage: "x", Serial: 6}, nil},
		"the next":                     {wrote, Version{Lineage: "x", Serial: 7}, nil},
		"another lineage":              {wrote, Version{Lineage: "y", Serial: 1}, nil},
		"no order":                     {wrote, Version{}, nil},
		"retried elsewhere":            {wrote, Version{Lineage: "x", Serial: 5}, ErrOld},
		"an older one of another lock": {&Lock{ID: "b7"}, Version{Lineage: "x", Serial: 5}, nil},
		"after an unlock":              {nil, Version{Lineage: "x", Serial: 7}, ErrNotLocked},
	} {
		r := Record{Name: "prod", State: "before"}
		if tt.lock != nil {
			l := *tt.lock
			r.Lock = &l
		}
		tt.v.File = "after"
		err := r.Write(tt.v)
		if !errors.Is(err, tt.want) || (err == nil) != (r.State == "after" && r.Lock.Last == tt.v) {
			t.Errorf("%s: got %v, %+v", what, err, r)
		}
	}
}
