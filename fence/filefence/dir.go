// SPDX-License-Identifier: Apache-2.0

package filefence

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/fencelock/fencelock/fence"
)

// Pointer is a name behind a guard. The calls take the token from ctx, and must
// keep the guard clauses of docs/spec.md: fencetest proves it.
type Pointer interface {
	// Enter raises the fence and then returns the name, empty at first.
	Enter(ctx context.Context) (string, error)
	// Set replaces the name if the token is admitted, in one step.
	Set(ctx context.Context, name string) error
	// Get returns the name without asking the guard.
	Get(ctx context.Context) (string, error)
}

var errNoLock = errors.New("filefence: no lock; a guard belongs to one lock and needs its name")

// Dir is a folder of versions and the pointer to the current one. It is safe for
// concurrent use, by several processes too if the pointer is.
type Dir struct {
	path, lock string
	pointer    Pointer
}

// New returns a guard for a folder that is there. lock is the name of the lock
// that the pointer belongs to.
func New(path, lock string, p Pointer) (*Dir, error) {
	if p == nil {
		return nil, errors.New("filefence: no pointer; use Local for processes of one host")
	}
	if lock == "" {
		return nil, errNoLock
	}
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("filefence: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("filefence: %s is not a directory", path)
	}
	return &Dir{path, lock, p}, nil
}

// Enter raises the fence to the token that ctx carries and returns the folder of
// the current version, or "" before the first one. No older holder changes it
// afterwards.
func (d *Dir) Enter(ctx context.Context) (current string, err error) {
	return d.folder(d.pointer.Enter(ctx))
}

// Current returns the folder of the current version, or "" before the first one.
// It needs no token.
func (d *Dir) Current(ctx context.Context) (string, error) {
	return d.folder(d.pointer.Get(ctx))
}

func (d *Dir) folder(name string, err error) (string, error) {
	if err != nil || name == "" {
		return "", err
	}
	return filepath.Join(d.path, name), nil
}

// Publish makes a folder for a version, lets write fill it, makes it durable and
// switches the pointer to it. Who may read the folder is up to the umask and to
// the permissions of the folder above. It guarantees that the pointer is switched only if
// no newer token has been seen, and only to a version that is complete.
//
// It returns write's error if there is one, and an error that wraps
// fence.ErrStale, fence.ErrNoToken or fence.ErrWrongLock if it was refused: then
// the version is removed again. Any other error of the switch leaves the outcome
// unknown.
func (d *Dir) Publish(ctx context.Context, write func(folder string) error) error {
	m, err := fence.FromContext(ctx, d.lock)
	if err != nil {
		return err
	}
	// The token alone is not enough: a holder that tries again must not change
	// what it has published already. os.MkdirTemp would keep other users out, and
	// they may read the pointer.
	folder := filepath.Join(d.path, m.Token.String()+"-"+rand.Text()[:8])
	if err := os.Mkdir(folder, 0o777); err != nil {
		return fmt.Errorf("filefence: %w", err)
	}
	if err := write(folder); err != nil {
		return errors.Join(err, os.RemoveAll(folder))
	}
	if err := syncAll(d.path, folder); err != nil {
		return errors.Join(fmt.Errorf("filefence: %w", err), os.RemoveAll(folder))
	}
	err = d.pointer.Set(ctx, filepath.Base(folder))
	if errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrNoToken) || errors.Is(err, fence.ErrWrongLock) {
		return errors.Join(err, os.RemoveAll(folder))
	}
	return err
}

// syncAll makes a folder and its name durable: the pointer must not outlive what
// it leads to.
func syncAll(parent, folder string) error {
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() && !e.Type().IsRegular() {
			return err
		}
		return syncPath(path)
	})
	return errors.Join(err, syncPath(parent))
}

// syncPath makes a file or a folder durable. Windows cannot do that to a folder
// and keeps its entries in a journal.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.IsDir() && runtime.GOOS == "windows" {
		return err
	}
	return f.Sync()
}
