// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/both"
)

// variable has the task of a child.
const variable = "FENCELOCK_FLEET_CHILD"

// Task is what a child does.
type Task struct {
	// Kind is which lock the fleet moves from, and Phase which locks the child takes.
	Kind  string
	Phase Phase
	// Addr is the address of the server, and Names are the locks.
	Addr  string
	Names []string
	// Workers is how many goroutines compete in the child.
	Workers int
}

// Phase is which locks a process takes.
type Phase string

// The phases.
const (
	Old  Phase = "old"
	Both Phase = "both"
	New  Phase = "new"
)

// Locker holds a lock while do runs. The context of do ends when the lock is lost.
type Locker func(ctx context.Context, name string, do func(ctx context.Context)) error

// Opener returns how a child takes locks, and what closes it.
type Opener func(t Task) (Locker, func(), error)

// Child runs the task of a child and ends the process, or returns at once if this process is not a child.
func Child(openers map[string]Opener) {
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	if err := child(text, openers); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(text string, openers map[string]Opener) error {
	var t Task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	lock, closing, err := openers[t.Kind](t)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	w := &writer{out: bufio.NewWriter(os.Stdout)}
	var workers sync.WaitGroup
	for range t.Workers {
		workers.Go(func() {
			for ctx.Err() == nil {
				work(ctx, w, lock, t.Names[rand.IntN(len(t.Names))])
			}
		})
	}
	workers.Wait()
	closing()
	return nil
}

// longest bounds one acquisition. Far fewer processes compete than could make it so long.
const longest = time.Minute

// work holds a lock for a moment and writes what came of it.
func work(ctx context.Context, w *writer, lock Locker, name string) {
	wait, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	err := lock(wait, name, func(held context.Context) {
		from := time.Now()
		time.Sleep(rand.N(2 * time.Millisecond))
		until := time.Now()
		if held.Err() == nil {
			w.line("hold %d %d %s", from.UnixMicro(), until.UnixMicro(), name)
		}
	})
	if err != nil && ctx.Err() == nil {
		w.line("failed %s: %v", name, err)
	}
}

// writer writes whole lines.
type writer struct {
	mu  sync.Mutex
	out *bufio.Writer
}

func (w *writer) line(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.out, format+"\n", args...)
	_ = w.out.Flush() // the parent may have ended
}

// Of returns how a child takes locks with a client of ours. after is called when the client is closed.
func Of(locks *fencelock.Client, after func()) (Locker, func()) {
	return func(ctx context.Context, name string, do func(context.Context)) error {
			return locks.Do(ctx, name, func(_ context.Context, l *fencelock.Lease) error {
				do(l.Context())
				return nil
			})
		}, func() {
			_ = locks.Close(context.Background()) // what is not released ends with its session
			after()
		}
}

// Stores returns the store of a phase.
func (p Phase) Stores(old, next driver.Store) (driver.Store, error) {
	switch p {
	case Old:
		return old, nil
	case New:
		return next, nil
	}
	return both.New(both.Stores{Old: old, New: next}, nil)
}
