// SPDX-License-Identifier: Apache-2.0

// Package storetest has what tests of several stores check in the same way, beside the contract: how a store is opened and how the API
// works on a real server. Its users are tests of every module.
package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

// Runs checks that a task runs under a lock of the client that a page of the documentation makes, and closes it.
func Runs(t *testing.T, locks *fencelock.Client, err error) {
	t.Helper()
	must.OK(t, err)
	ran := false
	err = locks.Do(t.Context(), "x", func(context.Context, *fencelock.Lease) error { ran = true; return nil })
	if err != nil || !ran {
		t.Errorf("ran: %v, %v", ran, err)
	}
	must.OK(t, locks.Close(t.Context()))
}

// GivesBack checks that another process has a lock that lingers for a TTL long before it has lingered, by Lock and by TryLock, and with
// a higher token. Each store that is opened is one of a process.
func GivesBack(t *testing.T, ttl time.Duration, open func() driver.Store) {
	t.Helper()
	process := func() *fencelock.Client {
		c, err := fencelock.New(open(), &fencelock.Options{TTL: ttl})
		must.OK(t, err)
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	mine, other := process(), process()
	for name, acquire := range map[string]func(context.Context) (*fencelock.Lease, error){
		"locked": other.Mutex("locked").Lock, "tried": other.Mutex("tried").TryLock,
	} {
		var last fencelock.Token
		for range 20 {
			l, err := mine.Mutex(name, fencelock.Linger(ttl)).Lock(t.Context())
			must.OK(t, err)
			last = l.Token()
			must.OK(t, l.Unlock(t.Context()))
		}
		began := time.Now()
		l, err := acquire(t.Context())
		for errors.Is(err, fencelock.ErrBusy) && time.Since(began) < ttl/2 {
			l, err = acquire(t.Context()) // the wait of a try is short for a machine under load
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if l.Token() <= last || time.Since(began) > ttl/2 {
			t.Errorf("%s: token %v after %v, in %v", name, l.Token(), last, time.Since(began))
		}
	}
}

// Secret is a password for the URLs of Refused.
const Secret = "hunter2"

// Refused opens stores by URLs, each of which must be an error with a text, and without Secret.
func Refused(t *testing.T, open func(url string) error, wants map[string]string) {
	t.Helper()
	for url, want := range wants {
		if err := open(url); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), Secret) {
			t.Errorf("%s: got %v, want %q and no secret", url, err, want)
		}
	}
}

// ByURL opens a store by its scheme, for Refused.
func ByURL(t *testing.T) func(url string) error {
	return func(url string) error {
		store, err := fencelock.OpenStore(t.Context(), url)
		if err != nil && store != nil {
			t.Errorf("%s: got %v beside %v", url, store, err)
		}
		return err
	}
}

// Differ reads URLs beside options, each of which must be an error that names the option which differs, and one that says the same.
func Differ(t *testing.T, read func(url string) error, options map[string]string, same string) {
	t.Helper()
	for url, option := range options {
		if err := read(url); err == nil || !strings.Contains(err.Error(), "in the URL and "+option+" differ") {
			t.Errorf("%s: got %v, want an error that names %s", url, err, option)
		}
	}
	if err := read(same); err != nil {
		t.Errorf("the same in both: %v", err)
	}
}
