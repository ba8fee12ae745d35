// SPDX-License-Identifier: Apache-2.0

//go:build unix

package guarded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/store/redisstore"
)

const (
	// lock is the lock of the value.
	lock = "guarded"
	// ttl is how long the lock of a paused worker stays taken.
	ttl = time.Second
	// think is the longest time between reading and writing. The test must be able to
	// pause a worker in it.
	think = 30 * time.Millisecond
)

// The environment of a worker.
const (
	envGuard = "FENCELOCK_TEST_GUARD"
	envName  = "FENCELOCK_TEST_WORKER"
	envRedis = "FENCELOCK_TEST_REDIS"
	envURL   = "FENCELOCK_TEST_RESOURCE"
)

// TestMain lets the test binary be a worker.
func TestMain(m *testing.M) {
	name := os.Getenv(envGuard)
	if name == "" {
		os.Exit(m.Run())
	}
	for _, g := range append(guards, noGuards...) {
		if g.name == name {
			if err := work(g); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	panic("no guard is called " + name)
}

// worker is one of the processes that share the value.
type worker struct {
	name  string
	value *fencetest.Value
	last  int // number of the last value that it tried to write
}

// work locks, reads and writes until the input ends.
func work(g guard) error {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	redis.SetLogger(silence{})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	value, err := g.open(ctx, os.Getenv(envURL))
	if err != nil {
		return err
	}
	store, err := redisstore.Open(ctx, os.Getenv(envRedis), nil)
	if err != nil {
		return err
	}
	defer store.Close()
	w := &worker{name: os.Getenv(envName), value: value}
	locks, err := fencelock.New(store, &fencelock.Options{Owner: w.name, TTL: ttl})
	if err != nil {
		return err
	}
	defer locks.Close(context.Background())
	for ctx.Err() == nil {
		if err := locks.Do(ctx, lock, w.hold); err != nil && ctx.Err() == nil && !errors.Is(err, fencelock.ErrLost) {
			w.tell(event{Kind: failed, Error: err.Error()})
		}
	}
	return nil
}

// hold reads, thinks and writes, once or twice.
func (w *worker) hold(ctx context.Context, l *fencelock.Lease) error {
	// The context ends when a worker that was paused finds out about it. That helps only
	// if it is seen before the write leaves. Here it never is: the worker made its last
	// check before it was paused.
	ctx = context.WithoutCancel(ctx)
	token := int64(l.Token())
	value, err := w.value.Enter(ctx)
	if errors.Is(err, fence.ErrStale) {
		w.tell(event{Kind: late, Token: token})
		return nil
	}
	if err != nil {
		return fmt.Errorf("enter: %w", err)
	}
	w.tell(event{Kind: readValue, Token: token, ID: value})
	for range 1 + rand.IntN(2) {
		time.Sleep(think/2 + rand.N(think/2))
		w.last++
		next := fmt.Sprintf("%s-%d", w.name, w.last)
		w.tell(event{Kind: tries, Token: token, ID: next, Over: value})
		e := event{Kind: written, Token: token, ID: next}
		if err := w.value.Write(ctx, next); errors.Is(err, fence.ErrStale) {
			e.Kind, e.Error = rejected, err.Error()
		} else if err != nil {
			e.Kind, e.Error = unknown, err.Error()
		}
		w.tell(e)
		if e.Kind != written {
			return nil
		}
		value = next
	}
	return nil
}

// tell writes a line for the test. It is in the pipe when tell returns, whatever becomes
// of this process.
func (w *worker) tell(e event) {
	e.Worker = w.name
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		os.Exit(2) // the test is gone
	}
}

// silence drops what go-redis logs about connections that break.
type silence struct{}

// Printf drops a message.
func (silence) Printf(context.Context, string, ...any) {}
