// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
)

// variable has the task of a child.
const variable = "FENCELOCK_FLEET_CHILD"

// Task is what a child does.
type Task struct {
	Phase Phase
	// From and To are the URLs of the stores that the fleet moves between.
	From, To string
	// Names are those of the locks.
	Names []string
	// Workers is how many goroutines compete in the child.
	Workers int
}

// Locker holds a lock while do runs. The context of do ends when the lock is lost.
type Locker func(ctx context.Context, name string, do func(ctx context.Context)) error

// Child runs the task of a child and ends the process, or returns at once if this process is not a child. native
// returns how the library that the fleet comes from takes locks, if that is a library for Go.
func Child(native func(t Task) (Locker, error)) {
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	if err := child(text, native); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(text string, native func(Task) (Locker, error)) error {
	var t Task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	lock, closing, err := t.open(native)
	if err != nil {
		return err
	}
	defer closing()
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
	return nil
}

// open returns how the child takes locks, and what ends its session.
func (t Task) open(native func(Task) (Locker, error)) (Locker, func(), error) {
	if t.Phase == Native {
		lock, err := native(t)
		return lock, func() {}, err
	}
	phase, to := t.Phase, t.To
	if phase == Grace {
		phase, to = New, to+"?grace=true"
	}
	store, err := openPhase(context.Background(), phase, t.From, to)
	if err != nil {
		return nil, nil, err
	}
	locks, err := fencelock.New(store, nil)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	lock := func(ctx context.Context, name string, do func(context.Context)) error {
		return locks.Do(ctx, name, func(_ context.Context, l *fencelock.Lease) error {
			do(l.Context())
			return nil
		})
	}
	return lock, func() {
		_ = locks.Close(context.Background()) // what is not released ends with its session
		_ = store.Close()
	}, nil
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
