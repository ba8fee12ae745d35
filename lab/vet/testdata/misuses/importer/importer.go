// SPDX-License-Identifier: Apache-2.0

// Package importer reads files of partners, one file on one worker.
package importer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/fencelock/fencelock"
)

type worker struct {
	locks *fencelock.Client
	limit *fencelock.Semaphore
	lease *fencelock.Lease
	lines chan string
}

func (w *worker) insert(ctx context.Context, line string) error { return nil }

// all imports every file that is free.
func (w *worker) all(ctx context.Context, files []string) error {
	for _, name := range files {
		l, err := w.locks.Mutex("files/" + name).TryLock(ctx) // misuse: leaseleak
		if err != nil {
			continue
		}
		f, err := os.Open(name)
		if os.IsNotExist(err) {
			continue
		}
		if err == nil {
			err = w.read(l.Context(), f)
			f.Close()
		}
		if uerr := l.Unlock(ctx); err == nil {
			err = uerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) read(ctx context.Context, r io.Reader) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if err := w.insert(ctx, lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// begin keeps the lease in the worker, and end only unlocks it.
func (w *worker) begin(ctx context.Context) (err error) {
	w.lease, err = w.locks.Mutex("import").Lock(ctx) // misuse: leasectx
	return err
}

func (w *worker) end(ctx context.Context) error { return w.lease.Unlock(ctx) }

// parallel imports with a limit over all processes.
func (w *worker) parallel(ctx context.Context, files []io.Reader) error {
	var wg sync.WaitGroup
	var failed error
	for _, f := range files {
		permit, err := w.limit.Acquire(ctx, 1)
		if err != nil {
			return err
		}
		wg.Add(1)
		go func() { // misuse: leasectx
			defer wg.Done()
			defer permit.Unlock(ctx)
			if err := w.read(ctx, f); err != nil {
				failed = err
			}
		}()
	}
	wg.Wait()
	return failed
}

// header holds the lock for the header of a file only.
func (w *worker) header(ctx context.Context, name string) (string, error) {
	l, err := w.locks.Mutex("files/" + name).Lock(ctx)
	if err != nil {
		return "", err
	}
	defer l.Unlock(ctx) // misuse: unlockerr
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return line, w.insert(ctx, line)
}

// permits that are never given back
func (w *worker) warmUp(ctx context.Context) {
	for range 3 {
		if _, err := w.limit.TryAcquire(ctx, 1); err != nil { // misuse: leaseleak
			return
		}
	}
}

// good imports one file under its lock.
func (w *worker) good(ctx context.Context, name string) error {
	return w.locks.Do(ctx, "files/"+name, func(ctx context.Context, l *fencelock.Lease) error {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		return w.read(ctx, f)
	})
}
