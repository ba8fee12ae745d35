// SPDX-License-Identifier: Apache-2.0

package tfstate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// pollEvery is how long to wait between two tries for a lock of the kernel: its own
// waiting cannot be ended by a context.
const pollEvery = 5 * time.Millisecond

// writeNew writes a file that is not there yet, and makes it durable.
func writeNew(path string, body io.Reader) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, body)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		_ = os.Remove(path)
	}
	return err
}

// replace replaces a file in one step, and makes it durable.
func replace(path string, text []byte) error {
	next := path + ".new" // the guard of the folder is held, so there is one writer
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeNew(next, strings.NewReader(string(text))); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	return syncPath(filepath.Dir(path))
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// hold takes a lock of the kernel. It returns ErrBusy if ctx ends before.
func hold(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		// A caller that gave up may have tried again elsewhere: even a lock that is free is
		// not taken for it.
		if ctx.Err() != nil {
			return nil, errors.Join(fmt.Errorf("%w: %s: %w", ErrBusy, path, context.Cause(ctx)), f.Close())
		}
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return func() { _ = f.Close() }, nil // closing gives it back
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}
