// SPDX-License-Identifier: Apache-2.0

package leaseleak

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/fencelock/fencelock"
)

var locks *fencelock.Client

func work(ctx context.Context) error { return nil }
func done() bool                     { return false }
func keep(l *fencelock.Lease)        {}
func isBusy(err error) bool          { return false }
func use(t fencelock.Token)          {}

// Reported.

func neverUnlocked(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx) // want `the lease l is not unlocked on every path: line 31 leaves the function`
	if err != nil {
		return err
	}
	use(l.Token())
	return work(ctx)
}

func earlyReturn(ctx context.Context) error {
	l, err := locks.Mutex("a").TryLock(ctx) // want `the lease l is not unlocked on every path: line 40 leaves`
	if err != nil {
		return err
	}
	if done() {
		return nil
	}
	return l.Unlock(ctx)
}

func errorOfWork(ctx context.Context) error {
	l, err := locks.RWMutex("a").RLock(ctx) // want `the lease l is not unlocked on every path`
	if err != nil {
		return err
	}
	if err = work(l.Context()); err != nil {
		return err
	}
	return l.Unlock(ctx)
}

func inALoop(ctx context.Context) {
	for {
		l, err := locks.Semaphore("a", 3).Acquire(ctx, 1) // want `the lease l is not unlocked on every path: the next acquisition overwrites it`
		if err != nil {
			continue
		}
		if done() {
			continue
		}
		_ = l.Unlock(ctx)
	}
}

func overwritten(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx) // want `the lease l is not unlocked on every path: line \d+ overwrites it`
	if err != nil {
		return err
	}
	l, err = locks.Mutex("b").Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	return work(ctx)
}

func dropped(ctx context.Context) bool {
	_, err := locks.Mutex("a").TryLock(ctx) // want `the lease of locks.Mutex\("a"\).TryLock is dropped`
	return err == nil
}

func droppedStatement(ctx context.Context) {
	locks.Mutex("a").Lock(ctx) // want `is dropped: nobody can unlock it`
}

func whenFree(ctx context.Context) {
	if l, err := locks.Mutex("a").TryLock(ctx); err == nil { // want `the lease l is not unlocked on every path`
		fmt.Println("got it", l.Name())
	}
}

func bySwitch(ctx context.Context) error {
	l, err := locks.Mutex("a").TryLock(ctx) // want `the lease l is not unlocked on every path`
	switch {
	case errors.Is(err, fencelock.ErrBusy):
		return nil
	case err != nil:
		return err
	}
	if done() {
		return nil
	}
	return l.Unlock(ctx)
}

func byTag(ctx context.Context) error {
	l, err := locks.Mutex("a").TryLock(ctx) // want `the lease l is not unlocked on every path`
	switch err {
	case nil:
		if done() {
			return nil
		}
		return l.Unlock(ctx)
	}
	return err
}

func set(ctx context.Context) error {
	all, err := locks.LockAll(ctx, []string{"a", "b"}) // want `the lease all is not unlocked on every path`
	if err != nil {
		return err
	}
	return work(all.Context())
}

func blankError(ctx context.Context) {
	l, _ := locks.Mutex("a").Lock(ctx) // want `the lease l is not unlocked on every path`
	if done() {
		return
	}
	l.Unlock(ctx)
}

func functionValue(ctx context.Context) error {
	lock := locks.Mutex("a").Lock
	if done() {
		lock = locks.Mutex("a").TryLock
	}
	l, err := lock(ctx) // want `the lease l is not unlocked on every path`
	if err != nil {
		return err
	}
	return work(l.Context())
}

func unchecked(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx) // want `the lease l is not unlocked on every path`
	log.Println(l.Name(), err)
	return work(ctx)
}

func closureOnlyLooks(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx) // want `the lease l is not unlocked on every path`
	if err != nil {
		return err
	}
	defer func() { log.Println(l.Token()) }()
	return work(ctx)
}

func acquire(ctx context.Context, id string) (*fencelock.Lease, error) {
	l, err := locks.Mutex("orders/" + id).Lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("order %s: %w", id, err)
	}
	return l, nil
}

func fromWrapper(ctx context.Context) error {
	l, err := acquire(ctx, "1") // want `the lease l is not unlocked on every path`
	if err != nil {
		return err
	}
	return work(l.Context())
}

// Not reported.

func deferred(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	return work(l.Context())
}

func deferredInAClosure(ctx context.Context) (err error) {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Unlock(ctx)) }()
	return work(l.Context())
}

func deferredBefore(ctx context.Context) (err error) {
	var l *fencelock.Lease
	defer func() { _ = l.Unlock(ctx) }()
	l, err = locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	return work(l.Context())
}

func everyPath(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	if done() {
		return l.Unlock(ctx)
	}
	return errors.Join(work(l.Context()), l.Unlock(ctx))
}

func returned(ctx context.Context) (*fencelock.Lease, error) {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return nil, err
	}
	use(l.Token())
	return l, nil
}

func namedResult(ctx context.Context) (l *fencelock.Lease, err error) {
	l, err = locks.Mutex("a").Lock(ctx)
	return
}

func straight(ctx context.Context) (*fencelock.Lease, error) {
	return locks.Mutex("a").Lock(ctx)
}

type owner struct {
	lease  *fencelock.Lease
	leases map[string]*fencelock.Lease
}

func (o *owner) stored(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	o.leases["a"] = l
	return nil
}

func (o *owner) storedAtOnce(ctx context.Context) (err error) {
	o.lease, err = locks.Mutex("a").Lock(ctx)
	return err
}

// current does not pass on the duty to unlock.
func (o *owner) current() (*fencelock.Lease, error) {
	if o.lease == nil {
		return nil, errors.New("none")
	}
	return o.lease, nil
}

func (o *owner) look() error {
	l, err := o.current()
	if err != nil {
		return err
	}
	return l.Err()
}

func passedOn(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	keep(l)
	return nil
}

func sent(ctx context.Context, ch chan *fencelock.Lease) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	ch <- l
	return nil
}

func inAGoroutine(ctx context.Context) error {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	go func() {
		_ = work(l.Context())
		_ = l.Unlock(ctx)
	}()
	return nil
}

func fatal(ctx context.Context) {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if done() {
		log.Fatal("a process that ends")
	} else {
		_ = l.Unlock(ctx)
	}
}

func ownTest(ctx context.Context) error {
	l, err := locks.Mutex("a").TryLock(ctx)
	if isBusy(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.Unlock(ctx)
}

func twoReasons(ctx context.Context) (bool, error) {
	l, err := locks.Mutex("a").TryLock(ctx)
	if errors.Is(err, fencelock.ErrBusy) || errors.Is(err, fencelock.ErrGrace) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	keep(l)
	return true, nil
}

func onlyIf(ctx context.Context) {
	l, err := locks.Mutex("a").TryLock(ctx)
	if err == nil && done() {
		_ = l.Unlock(ctx)
		return
	}
	if l != nil {
		_ = l.Unlock(ctx)
	}
}

func roundByRound(ctx context.Context) error {
	for range 3 {
		l, err := locks.Mutex("a").Lock(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(work(l.Context()), l.Unlock(ctx)); err != nil {
			return err
		}
	}
	return nil
}

func retry(ctx context.Context) error {
	for {
		l, err := locks.Mutex("a").Lock(ctx)
		switch {
		case err == nil:
			keep(l)
			return nil
		case done():
			return err
		}
	}
}

func fixedTime(ctx context.Context) error {
	_, err := locks.Mutex("a", fencelock.MaxHold(time.Minute)).Lock(ctx)
	return err
}

func fixedTimeOfAHandle(ctx context.Context) error {
	mu := locks.Mutex("a", fencelock.MaxHold(time.Minute))
	l, err := mu.Lock(ctx)
	if err != nil {
		return err
	}
	use(l.Token())
	return nil
}

func untilClose(ctx context.Context, store fencelock.Store) error {
	c, err := fencelock.New(store, nil)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	l, err := c.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	return work(l.Context())
}

func value(ctx context.Context) (unlock func(context.Context) error, err error) {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return nil, err
	}
	return l.Unlock, nil
}

func single(ctx context.Context) error {
	all, err := locks.LockAll(ctx, []string{"a", "b"})
	if err != nil {
		return err
	}
	for _, l := range all.Leases() {
		_ = l.Unlock(ctx)
	}
	return nil
}

func surelyBusy(ctx context.Context, other *fencelock.Client) error {
	return locks.Do(ctx, "a", func(ctx context.Context, l *fencelock.Lease) error {
		_, err := other.Mutex("a").TryLock(context.Background())
		fmt.Println(err)
		return nil
	})
}

// withCleanup returns a function that unlocks, so its callers need not.
func withCleanup(ctx context.Context) (*fencelock.Lease, func() error, error) {
	l, err := locks.Mutex("a").Lock(ctx)
	if err != nil {
		return nil, nil, err
	}
	return l, func() error { return l.Unlock(ctx) }, nil
}

func cleanedUp(ctx context.Context) error {
	l, cleanup, err := withCleanup(ctx)
	if err != nil {
		return err
	}
	defer cleanup()
	return work(l.Context())
}

func asAnything(ctx context.Context) (any, error) {
	var l any
	var err error
	if done() {
		l, err = locks.Mutex("a").Lock(ctx)
	}
	if err != nil {
		return nil, err
	}
	if done() {
		return nil, errors.New("not known whether it is locked")
	}
	return l, nil
}
