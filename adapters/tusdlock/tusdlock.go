// SPDX-License-Identifier: Apache-2.0

// Package tusdlock has the locks of uploads for several tusd servers: it is a handler.Locker
// of tusd v2.
//
//	locker, err := tusdlock.New[handler.Lock](client, handler.ErrLockTimeout, nil)
//	…
//	composer.UseLocker(locker)
//
// First consider whether a load balancer can send all requests of an upload to one server:
// then the lock of tusd inside the process is enough, and nothing has to be asked for it.
//
// tusd locks an upload during each request. A client whose connection broke sends a HEAD
// request to find out how much has arrived, possibly to another server, while the first one
// still waits for bytes that do not come. So the holder of the lock is asked to stop:
//
//	server 1   PATCH: Lock ─ reads … (the connection is dead) ─── stops ─ Unlock
//	server 2                          HEAD: Lock ─ waits ─┴ asks ───────────┴─ answers
//
// # Failures
//
//   - The process of a request dies: the upload is locked until the client's TTL has passed.
//     tusd waits for 20 s (Config.AcquireLockTimeout), so leave the TTL at 15 s or below.
//   - The lock is lost: OnLost is called, and the request is asked to stop as if another one
//     waited. What it writes until then is not fenced: tusd passes no token to its storage.
//   - The holder is notified as soon as [fencelock.Guarantees.Contended] promises. Where the store
//     never notifies, as concurrencystore, each request in progress polls it once a second. A store
//     without a queue (memcached) is refused.
//
// tusd is not imported: the type parameter is its type handler.Lock.
package tusdlock

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/internal/held"
	"github.com/fencelock/fencelock/driver"
)

// Options are the settings of a Locker.
type Options struct {
	// Prefix is what names of locks begin with; "tusd/" if it is empty. The ID of an upload
	// follows, and both together have 512 bytes at most.
	Prefix string
	// OnLost is called if the lock of an upload is lost during a request; err wraps
	// fencelock.ErrLost. Without it, a loss is logged.
	OnLost func(id string, err error)
}

// Locker is a handler.Locker. L is handler.Lock.
type Locker[L any] struct {
	client  *fencelock.Client
	timeout error // handler.ErrLockTimeout
	leases  *held.Leases
}

// New returns a Locker. errTimeout is handler.ErrLockTimeout, which Lock returns for an upload
// that stays locked. opts may be nil. New fails if the store does not know who waits, and if L
// is not handler.Lock.
func New[L any](c *fencelock.Client, errTimeout error, opts *Options) (*Locker[L], error) {
	if opts == nil {
		opts = &Options{}
	}
	prefix := opts.Prefix
	if prefix == "" {
		prefix = "tusd/"
	}
	_, fits := any(&lock{}).(L)
	switch g := c.Guarantees(); {
	case errTimeout == nil:
		return nil, errors.New("tusdlock: the error for an upload that stays locked is nil; pass handler.ErrLockTimeout")
	case g.Contended == driver.NoNotice && !g.Fair:
		return nil, fmt.Errorf("tusdlock: the %s store does not know whether another request waits, so that a broken upload could not be resumed: use another store", g.Server)
	case !fits:
		return nil, fmt.Errorf("tusdlock: New[%v] is not of handler.Lock; write New[handler.Lock]", reflect.TypeFor[L]())
	}
	return &Locker[L]{client: c, timeout: errTimeout, leases: held.New(prefix, opts.OnLost)}, nil
}

// NewLock returns the lock of an upload. It does no I/O.
func (k *Locker[L]) NewLock(id string) (L, error) {
	return any(&lock{id: id, client: k.client, timeout: k.timeout, leases: k.leases}).(L), nil
}

// lock is a handler.Lock.
type lock struct {
	id      string
	client  *fencelock.Client
	timeout error
	leases  *held.Leases

	mu    sync.Mutex
	lease *fencelock.Lease
}

// Lock waits for the lock until ctx ends. requestUnlock is called when another request waits
// for it, and when it is lost.
func (k *lock) Lock(ctx context.Context, requestUnlock func()) error {
	l, err := k.client.Mutex(k.leases.Lock(k.id), fencelock.Reason("upload")).Lock(ctx)
	switch {
	case err != nil && ctx.Err() != nil && !errors.Is(err, fencelock.ErrUnavailable):
		return k.timeout // not wrapped: tusd compares it
	case err != nil:
		return err
	}
	k.mu.Lock()
	k.lease = l
	k.mu.Unlock()
	k.leases.Watch(k.id, l)
	go func() {
		if k.awaitContended(l); l.Err() == nil || errors.Is(l.Err(), fencelock.ErrLost) {
			requestUnlock()
		}
	}()
	return nil
}

// poll is how often a store that does not notify is asked whether another request waits.
const poll = time.Second

// awaitContended returns when another request waits for the lock, and when the lease has ended.
func (k *lock) awaitContended(l *fencelock.Lease) {
	var tick <-chan time.Time
	if k.client.Guarantees().Contended == driver.NoNotice {
		ticker := time.NewTicker(poll)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-l.Contended(): // by a request of the same process on every store
			return
		case <-l.Context().Done():
			return
		case <-tick:
			if st, err := k.client.Inspect(l.Context(), l.Name()); err == nil && st.Waiting > 0 {
				return
			}
		}
	}
}

// Unlock gives the lock back. Its error wraps fencelock.ErrLost if it was lost before.
func (k *lock) Unlock() error {
	k.mu.Lock()
	l := k.lease
	k.lease = nil
	k.mu.Unlock()
	if l == nil {
		return fmt.Errorf("tusdlock: unlock %q: it is not locked here", k.id)
	}
	return held.Confirmed(l.Unlock(context.Background()))
}
