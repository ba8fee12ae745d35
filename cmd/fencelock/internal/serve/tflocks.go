// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/tfstate"
)

// terraform holds the locks of the store for applies, which cannot renew. A lock is shared
// between servers by its Terraform id: a server takes over that of one that does not renew,
// with the same token.
type terraform struct {
	states *tfstate.Folder
	client *fencelock.Client
	logger *slog.Logger
	// patience bounds the calls of one round, and each those for one state: one that does not
	// answer must not keep the others from being taken over.
	patience, each time.Duration
	nudged         chan struct{}

	mu   sync.Mutex
	held map[string]heldState // by name of the state
}

// minEach is enough for a store that answers.
const minEach = time.Second

type heldState struct {
	id    string
	lease *fencelock.Lease
}

func newTerraform(cfg *Config) *terraform {
	return &terraform{states: cfg.States, client: cfg.StatesClient, logger: cfg.Logger, patience: 4 * cfg.Timeout,
		each: max(cfg.StatesClient.Guarantees().TTL/4, minEach), nudged: make(chan struct{}, 1), held: map[string]heldState{}}
}

// run takes over, takes again and gives back what the records ask for, until ctx ends. It
// leaves the locks in the store to other servers then: an apply may go on.
func (t *terraform) run(ctx context.Context) {
	tick := time.NewTicker(t.client.Guarantees().TTL / 8)
	defer tick.Stop()
	for ctx.Err() == nil {
		t.round(ctx)
		select {
		case <-tick.C:
		case <-t.nudged:
		case <-ctx.Done():
		}
	}
}

func (t *terraform) round(parent context.Context) {
	ctx, cancel := context.WithTimeout(parent, t.patience)
	defer cancel()
	records, err := t.states.Locked()
	if err != nil {
		t.logger.Error("a Terraform state cannot be read", "error", err)
	}
	wanted := map[string]bool{}
	for i := range records {
		wanted[records[i].Name+"\x00"+records[i].Lock.ID] = true
	}
	// What one round does not reach must not be the same every time.
	rand.Shuffle(len(records), func(i, k int) { records[i], records[k] = records[k], records[i] })
	for i := range records {
		if ctx.Err() != nil {
			if parent.Err() == nil {
				t.logger.Error("the store or the disk is too slow to hold the locks of all Terraform states", "skipped", len(records)-i)
			}
			break
		}
		t.keepWithin(ctx, &records[i])
	}
	if err != nil { // a record that was not read may be one that is held
		return
	}
	for name, h := range t.holds() {
		if !wanted[name+"\x00"+h.id] {
			t.drop(ctx, name, h.id)
		}
	}
}

func (t *terraform) holds() map[string]heldState {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string]heldState, len(t.held))
	for name, h := range t.held {
		all[name] = h
	}
	return all
}

func (t *terraform) keepWithin(parent context.Context, r *tfstate.Record) {
	ctx, cancel := context.WithTimeout(parent, t.each)
	defer cancel()
	if err := t.keep(ctx, r); err != nil && !errors.Is(err, fencelock.ErrBusy) && !errors.Is(parent.Err(), context.Canceled) {
		t.logger.Error("the lock of a Terraform state cannot be held; the state stays locked", "state", r.Name, "error", err)
	}
}

// keep makes sure that a server holds the lock of a record.
func (t *terraform) keep(ctx context.Context, r *tfstate.Record) error {
	if h, ok := t.holds()[r.Name]; ok && h.id == r.Lock.ID {
		err := h.lease.Err()
		if err == nil {
			return nil
		}
		if errors.Is(err, fencelock.ErrBroken) { // to break the lock is to force-unlock the state
			_, err := t.states.Change(ctx, r.Name, func(now *tfstate.Record) error { return now.Give(r.Lock.ID, "") })
			if err == nil {
				t.logger.Warn("the lock of a Terraform state was broken; the state is unlocked", "state", r.Name, "id", r.Lock.ID)
			}
			t.drop(ctx, r.Name, r.Lock.ID)
			return notHeld(err)
		}
	}
	st, err := t.client.Inspect(ctx, r.Name)
	if err != nil || renewed(&st, reentry(r.Lock.ID), t.client.Guarantees().TTL) {
		return err
	}
	var info lockInfo
	if err := json.Unmarshal(r.Lock.Info, &info); err != nil {
		return err
	}
	lease, err := t.take(ctx, r.Name, &info)
	if err != nil {
		return err
	}
	_, err = t.states.Change(ctx, r.Name, func(now *tfstate.Record) error { return now.Renew(r.Lock.ID, lease.Token()) })
	if err != nil { // unlocked while it was taken
		return errors.Join(notHeld(err), lease.Unlock(ctx))
	}
	t.put(ctx, r.Name, r.Lock.ID, lease)
	return nil
}

// notHeld drops the error of a lock that is no longer on record, which is as it should be.
func notHeld(err error) error {
	var locked *tfstate.LockedError
	if errors.Is(err, tfstate.ErrNotLocked) || errors.As(err, &locked) {
		return nil
	}
	return err
}

// reentry is the id of the store for an id of Terraform. A caller chooses the latter, so it must
// not be one with which a program has locked: the caller would join the program's lock, and its
// unlock would break it.
func reentry(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "terraform:" + hex.EncodeToString(sum[:])
}

// renewed reports whether a server holds the lock with a re-entry id and renews it. One that
// lives renews after a third of the TTL.
func renewed(st *fencelock.Status, reentry string, ttl time.Duration) bool {
	for i := range st.Holders {
		if h := &st.Holders[i]; h.Reentry == reentry && !h.Kept && h.EndsIn > ttl/2 {
			return true
		}
	}
	return false
}

// take takes the lock of the store, if no other than this id has it.
func (t *terraform) take(ctx context.Context, name string, info *lockInfo) (*fencelock.Lease, error) {
	return t.client.Mutex(name, fencelock.ReentrantAs(reentry(info.ID)), fencelock.Label("terraform", brief(info.ID, 64)),
		fencelock.Reason("terraform: "+brief(info.Operation, 64)+" by "+brief(info.Who, 128))).TryLock(ctx)
}

// brief cuts a text that a client chose, because a record of a holder is small.
func brief(text string, most int) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), most)])
}

// put keeps a lease. The round is run again when it is lost.
func (t *terraform) put(ctx context.Context, name, id string, lease *fencelock.Lease) {
	t.mu.Lock()
	before, had := t.held[name]
	t.held[name] = heldState{id, lease}
	t.mu.Unlock()
	if had && before.lease != lease {
		_ = before.lease.Unlock(ctx) // lost, or of an id that is no longer on record
	}
	context.AfterFunc(lease.Context(), func() {
		select {
		case t.nudged <- struct{}{}:
		default:
		}
	})
}

// drop gives a lease back.
func (t *terraform) drop(ctx context.Context, name, id string) {
	t.mu.Lock()
	h, ok := t.held[name]
	if ok = ok && h.id == id; ok {
		delete(t.held, name)
	}
	t.mu.Unlock()
	if ok {
		_ = h.lease.Unlock(ctx) // what the store does not confirm ends with the TTL
	}
}

// lock takes the lock of the store and puts it on record. A state that is locked with this id
// already is locked: the answer to the first call may have been lost.
func (t *terraform) lock(ctx context.Context, name, user string, info *lockInfo) error {
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	l := tfstate.Lock{ID: info.ID, User: user, Info: text, Since: time.Now().UTC()}
	if r, err := t.states.Read(name); err != nil || r.Lock != nil {
		if err == nil {
			err = r.Take(l)
		}
		return err
	}
	lease, err := t.take(ctx, name, info)
	if err != nil {
		return err
	}
	l.Token = lease.Token()
	if _, err := t.states.Change(ctx, name, func(r *tfstate.Record) error { return r.Take(l) }); err != nil {
		return errors.Join(err, lease.Unlock(context.WithoutCancel(ctx)))
	}
	t.put(ctx, name, info.ID, lease)
	return nil
}

// unlock removes a lock from the record, and then from the store, whichever server holds it
// there. From the first step on no write with its id is admitted.
func (t *terraform) unlock(ctx context.Context, name, id, by string) error {
	if _, err := t.states.Change(ctx, name, func(r *tfstate.Record) error { return r.Give(id, by) }); err != nil {
		return err
	}
	t.drop(ctx, name, id)
	st, err := t.client.Inspect(ctx, name)
	for i := range st.Holders { // of other servers, which give it back only after their next round
		if h := &st.Holders[i]; h.Reentry == reentry(id) && !h.Kept {
			_, broken := t.client.Break(ctx, name, h.Token)
			if errors.Is(broken, fencelock.ErrNotHeld) {
				broken = nil
			}
			err = errors.Join(err, broken)
		}
	}
	if err != nil {
		t.logger.Warn("a Terraform state is unlocked, and its lock in the store is given back later", "state", name, "error", err)
	}
	return nil
}

// broken unlocks a state whose lock in the store an operator broke through this server, or that
// has ended there. It reports whether it did.
func (t *terraform) broken(ctx context.Context, name string, token fencelock.Token) bool {
	r, err := t.states.Read(name)
	if err == nil && (r.Lock == nil || r.Lock.Token.Base() != token.Base()) {
		return false
	}
	if err == nil {
		_, err = t.states.Change(ctx, name, func(now *tfstate.Record) error { return now.Give(r.Lock.ID, "") })
	}
	if notHeld(err) != nil {
		t.logger.Error("a lock was broken, and the Terraform state cannot be unlocked", "state", name, "error", err)
	}
	return err == nil
}
