// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// migrate brings the schema to the version that this program wants, with all other
// replicas queued. A start-up that waits must not look like one that hangs, so log is
// called while it waits. ctx bounds the waiting only, so that no
// time-out ends a migration in the middle:
//
//	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
func migrate(ctx context.Context, locks *fencelock.Client, s schema, want int, log func(string)) (err error) {
	l, err := lockVisibly(ctx, locks, "migrate/app", fmt.Sprintf("schema to version %d", want), log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Unlock(ctx)) }()
	held := l.Context()          // ends if the lease is lost
	have, err := s.version(held) // now that no other process changes it
	if err != nil {
		return err
	}
	if have >= want {
		log(fmt.Sprintf("schema is at %d, nothing to do", have))
		return nil
	}
	log(fmt.Sprintf("schema from %d to %d", have, want))
	return s.migrate(held, want)
}

// lockVisibly locks, and logs for whom it waits: at once, and every few seconds.
func lockVisibly(ctx context.Context, locks *fencelock.Client, name, why string, log func(string)) (*fencelock.Lease, error) {
	mu := locks.Mutex(name, fencelock.Reason(why))
	l, err := mu.TryLock(ctx)
	var busy *fencelock.BusyError
	switch {
	case errors.As(err, &busy):
		log(waitingFor(busy.Holders))
	case errors.Is(err, fencelock.ErrGrace):
		log(err.Error())
	default:
		return l, err
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for {
			select {
			case <-time.After(5 * time.Second):
			case <-waiting.Done():
				return
			}
			if st, err := locks.Inspect(waiting, name); err == nil && waiting.Err() == nil {
				log(waitingFor(st.Holders))
			}
		}
	}()
	return mu.Lock(ctx)
}

func waitingFor(holders []fencelock.Holder) string {
	if len(holders) == 0 {
		return "waiting in the queue"
	}
	return fmt.Sprintf("waiting for %s: %s", holders[0].Record.Owner, holders[0].Record.Reason) // Age is since when
}

// schema is what a migration tool offers.
type schema interface {
	version(ctx context.Context) (int, error)
	migrate(ctx context.Context, to int) error
}

// Two replicas start with a new version of the program. The second one logs for
// whom it waits, and then finds that all is done.
func Example_migration() {
	ctx := context.Background()
	store := memstore.New(nil) // in a program: redisstore.Open(ctx, url, nil)
	db := &fakeSchema{at: 12, started: make(chan struct{}), goOn: make(chan struct{})}
	first, second := process(store, "app-1"), process(store, "app-2")
	defer first.Close(ctx)
	defer second.Close(ctx)

	done := make(chan error)
	go func() {
		done <- migrate(ctx, first, db, 14, func(string) {})
	}()
	<-db.started
	go func() {
		waits := true
		done <- migrate(ctx, second, db, 14, func(what string) {
			fmt.Println("app-2:", what)
			if waits {
				waits = false
				close(db.goOn) // the migration takes until app-2 has seen it
			}
		})
	}()
	fmt.Println(<-done, <-done)
	// Output:
	// app-2: waiting for app-1: schema to version 14
	// app-2: schema is at 14, nothing to do
	// <nil> <nil>
}

type fakeSchema struct {
	at            int
	started, goOn chan struct{}
}

func (s *fakeSchema) version(context.Context) (int, error) { return s.at, nil }

func (s *fakeSchema) migrate(_ context.Context, to int) error {
	close(s.started)
	<-s.goOn
	s.at = to
	return nil
}
