// SPDX-License-Identifier: Apache-2.0

package filefence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fencelock/fencelock/fence"
)

// Local is a pointer in a file, for processes of one host. What makes its check
// and its write one step is a file lock of the kernel (flock), which a process
// that is stopped keeps, and one that dies does not. It must be on a file system
// of this host: over a network flock is a lease too, and can be lost.
type Local struct{ path, lock string }

// pollEvery is how long Local waits between two tries for a file lock that is taken.
// The kernel's own waiting cannot be ended by a context.
const pollEvery = 5 * time.Millisecond

// NewLocal returns a pointer that is kept in the file at path, with the lock of
// the kernel in path.lock beside it; both are made when they are first needed.
// lock is the name of the lock whose token is checked. It returns an error that
// wraps errors.ErrUnsupported where the system has no flock.
func NewLocal(path, lock string) (*Local, error) {
	if !haveFlock {
		return nil, fmt.Errorf("filefence: file locks: %w; keep the pointer in a database", errors.ErrUnsupported)
	}
	if lock == "" {
		return nil, errNoLock
	}
	return &Local{path, lock}, nil
}

// pointed is what the file holds.
type pointed struct {
	Name   string     `json:"name"`
	Fence  fence.Mark `json:"fence"`
	isThis bool       // Fence is the caller's already
}

// Enter implements Pointer.
func (l *Local) Enter(ctx context.Context) (name string, err error) {
	err = l.raise(ctx, func(p *pointed) bool {
		name = p.Name
		return !p.isThis
	})
	return name, err
}

// Set implements Pointer.
func (l *Local) Set(ctx context.Context, name string) error {
	return l.raise(ctx, func(p *pointed) bool {
		p.Name = name
		return true
	})
}

// Get implements Pointer.
func (l *Local) Get(context.Context) (string, error) {
	p, err := l.read()
	return p.Name, err
}

// raise checks the token and does what it admits under the lock of the kernel.
func (l *Local) raise(ctx context.Context, admitted func(*pointed) (changed bool)) error {
	given, err := fence.FromContext(ctx, l.lock)
	if err != nil {
		return err
	}
	unlock, err := l.hold(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	p, err := l.read()
	if err != nil {
		return err
	}
	if err := fence.Check(p.Fence, given); err != nil {
		return err
	}
	p.isThis, p.Fence = p.Fence == given, given
	if !admitted(&p) {
		return nil
	}
	return l.write(p)
}

func (l *Local) read() (p pointed, err error) {
	text, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return p, fmt.Errorf("filefence: read the pointer %s: %w", l.path, err)
	}
	return p, nil
}

// write replaces the file as a whole and makes it durable. Readers see the old
// one or the new one.
func (l *Local) write(p pointed) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	dir := filepath.Dir(l.path)
	f, err := os.CreateTemp(dir, filepath.Base(l.path)+".new-*")
	if err != nil {
		return fmt.Errorf("filefence: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), l.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("filefence: write the pointer %s: %w", l.path, err), os.Remove(f.Name()))
	}
	if err := syncPath(dir); err != nil {
		return fmt.Errorf("filefence: the pointer %s may not be durable: %w", l.path, err)
	}
	return nil
}

// hold takes the kernel's file lock. The lock is on a separate file, because each
// write replaces the pointer's file.
func (l *Local) hold(ctx context.Context) (unlock func(), err error) {
	// A user that can open it, even to read, can take the lock and block all writers.
	f, err := os.OpenFile(l.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("filefence: %w", err)
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		taken, err := tryFlock(f)
		if taken {
			return func() { _ = f.Close() }, nil // closing gives it back
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("filefence: lock %s: %w", f.Name(), err), f.Close())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("filefence: wait for %s: %w", f.Name(), context.Cause(ctx)), f.Close())
		}
	}
}
