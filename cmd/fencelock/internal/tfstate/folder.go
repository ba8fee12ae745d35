// SPDX-License-Identifier: Apache-2.0

package tfstate

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	recordFile = "record.json"
	guardFile  = "guard.lock"
	stateEnd   = ".tfstate"
	// keepVersions is how many versions are kept beside the current one, for an operator.
	keepVersions = 10
	// keepFor lets a reader, and a writer that is not yet on record, finish.
	keepFor = time.Hour
	// racyFor is how long a file can change again without looking different: its time is
	// coarse, and the number of a file that was removed is used again.
	racyFor = time.Second
	// pollEvery is how long to wait between two tries for a lock of the kernel: its own
	// waiting cannot be ended by a context.
	pollEvery = 5 * time.Millisecond
)

// Folder keeps states in files, for servers of one machine. What makes a decision and its
// write one step is a lock of the kernel (flock), which a process that dies gives back.
type Folder struct {
	root string

	mu   sync.Mutex
	seen map[string]seen // by folder of a state
}

// seen is a record that was read, and the file that it was read from.
type seen struct {
	file   os.FileInfo
	record Record
}

// Open uses a folder, and makes it if it is not there. It rejects one that other users can
// read: states have passwords in them.
func Open(root string) (*Folder, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(root)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a directory", root)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s: other users may use it, and states have passwords in them; chmod 700 it", root)
	}
	return &Folder{root: root, seen: map[string]seen{}}, nil
}

// path is the folder of a state. A name may have any characters, so it is only a hint for
// people there; the hash decides.
func (f *Folder) path(name string) string {
	hint := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, name)
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(f.root, hint[:min(len(hint), 40)]+"."+hex.EncodeToString(sum[:16]))
}

// Read returns the record of a state. That of a state that is not there is empty.
func (f *Folder) Read(name string) (Record, error) {
	r, err := readRecord(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{Name: name}, nil
	}
	return r, err
}

func readRecord(dir string) (r Record, err error) {
	text, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s: %w", filepath.Join(dir, recordFile), err)
	}
	return r, nil
}

// Change reads the record of a state, lets decide change it and keeps what it made of it, in
// one step. If decide returns an error nothing is changed. The record that is returned is
// the one that is kept.
func (f *Folder) Change(ctx context.Context, name string, decide func(*Record) error) (Record, error) {
	dir := f.path(name)
	if err := os.Mkdir(dir, 0o700); err == nil {
		if err := syncPath(f.root); err != nil {
			return Record{}, err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return Record{}, err
	}
	unlock, err := hold(ctx, filepath.Join(dir, guardFile))
	if err != nil {
		return Record{}, err
	}
	defer unlock()
	before, err := f.Read(name)
	if err != nil {
		return Record{}, err
	}
	after := before
	if before.Lock != nil { // decide may write into it
		l := *before.Lock
		after.Lock = &l
	}
	if err := decide(&after); err != nil {
		return before, err
	}
	text, err := json.MarshalIndent(after, "", "  ")
	if err != nil {
		return before, err
	}
	return after, replace(filepath.Join(dir, recordFile), append(text, '\n'))
}

// Write makes body the current version, if admits allows it. It guarantees that readers see
// the version from before or all of body.
func (f *Folder) Write(ctx context.Context, name string, body io.Reader, admits func(*Record) error) error {
	if before, err := f.Read(name); err != nil {
		return err
	} else if err := admits(&before); err != nil { // decided again below; this one spares the disk
		return err
	}
	dir := f.path(name)
	version := time.Now().UTC().Format("20060102T150405.000000Z") + "-" + rand.Text()[:8] + stateEnd
	if err := writeNew(filepath.Join(dir, version), body); err != nil {
		return err
	}
	_, err := f.Change(ctx, name, func(r *Record) error {
		if err := admits(r); err != nil {
			return err
		}
		r.State = version
		return nil
	})
	if err != nil {
		// The record may lead there if only its last step failed.
		if r, readErr := f.Read(name); readErr == nil && r.State != version {
			_ = os.Remove(filepath.Join(dir, version))
		}
		return err
	}
	tidy(dir, version)
	return nil
}

// Get opens the current version; it returns nil before the first.
func (f *Folder) Get(name string) (*os.File, error) {
	for {
		r, err := f.Read(name)
		if err != nil || r.State == "" {
			return nil, err
		}
		file, err := os.Open(filepath.Join(f.path(name), r.State))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
		if again, readErr := f.Read(name); readErr != nil || again.State == r.State {
			return nil, fmt.Errorf("the record of %q leads to a version that is not there; restore it from a backup: %w", name, err)
		}
	}
}

// Locked returns the records with a lock. A record that has not changed is not read again.
func (f *Folder) Locked() (locked []Record, err error) {
	entries, err := os.ReadDir(f.root)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range entries {
		dir := filepath.Join(f.root, e.Name())
		info, statErr := os.Stat(filepath.Join(dir, recordFile))
		if statErr != nil { // not a state, or one that is being made
			continue
		}
		known, ok := f.seen[dir]
		if !ok || !os.SameFile(known.file, info) || !known.file.ModTime().Equal(info.ModTime()) {
			r, readErr := readRecord(dir)
			if readErr != nil {
				err = errors.Join(err, readErr)
				continue
			}
			known = seen{info, r}
			delete(f.seen, dir)
			if time.Since(info.ModTime()) > racyFor {
				f.seen[dir] = known
			}
		}
		if known.record.Lock != nil {
			locked = append(locked, known.record)
		}
	}
	return locked, err
}

// tidy removes old versions. What cannot be removed now is removed by a later write.
func tidy(dir, current string) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	var versions []string
	for _, file := range files {
		if name := file.Name(); strings.HasSuffix(name, stateEnd) && name != current {
			versions = append(versions, name)
		}
	}
	slices.Sort(versions) // by time
	for _, name := range versions[:max(0, len(versions)-keepVersions)] {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > keepFor {
			_ = os.Remove(path)
		}
	}
}

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

// hold takes a lock of the kernel.
func hold(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return func() { _ = f.Close() }, nil // closing gives it back
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for %s: %w", path, context.Cause(ctx)), f.Close())
		}
	}
}
