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
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// markerFile has the random id of a folder. An empty mount point does not have it, and
	// every state would be new there.
	markerFile = "folder.id"
	recordFile = "record.json"
	guardFile  = "guard.lock"
	// racyFor is how long a file can change again without looking different: its time is
	// coarse, and the number of a file that was removed is used again.
	racyFor = time.Second
	// holdWithin bounds the wait for another server that changes the same state, which takes
	// milliseconds unless that server is paused.
	holdWithin = 10 * time.Second
)

// ErrBusy: another server keeps the state from being changed. Nothing was changed.
var ErrBusy = errors.New("another server is at the state, and is paused or has a slow disk")

// ErrGone: the folder is not the one that was opened. Nothing was read or changed.
var ErrGone = errors.New("the folder of states is not the one that the server opened; is its disk mounted?")

// Folder keeps states in files, for servers of one machine. What makes a decision and its
// write one step is a lock of the kernel (flock), which a process that dies gives back.
type Folder struct {
	root   string
	id     string // of the folder that was opened
	within time.Duration

	mu   sync.Mutex
	seen map[string]seen // by folder of a state
}

// seen is a record that was read, and the file that it was read from.
type seen struct {
	file   os.FileInfo
	record Record
}

// Init makes a folder for states. One that is there already stays as it is.
func Init(root string) error {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return err
	}
	if err := private(root); err != nil {
		return err
	}
	err := writeNew(filepath.Join(root, markerFile), strings.NewReader(rand.Text()+"\n"))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return errors.Join(err, syncPath(root))
}

// Open uses a folder that Init made. It makes none: where a disk is not mounted, an empty
// folder would let Terraform build everything again.
func Open(root string) (*Folder, error) {
	id, err := os.ReadFile(filepath.Join(root, markerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not a folder of states; mount its disk, or make a new one with: fencelock serve states %s", root, root)
	}
	if err != nil {
		return nil, err
	}
	if err := private(root); err != nil {
		return nil, err
	}
	return &Folder{root: root, id: string(id), within: holdWithin, seen: map[string]seen{}}, nil
}

// private rejects a folder that other users can read: states have passwords in them.
func private(root string) error {
	info, err := os.Stat(root)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", root)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s: other users may use it, and states have passwords in them; chmod 700 it", root)
	}
	return nil
}

// here reports why the folder is not the one that was opened, nil if it is.
func (f *Folder) here() error {
	id, err := os.ReadFile(filepath.Join(f.root, markerFile))
	if err == nil && string(id) == f.id {
		return nil
	}
	return errors.Join(fmt.Errorf("%w %s", ErrGone, f.root), err)
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
		return Record{Name: name}, f.here()
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
	return f.change(ctx, name, decide, nil)
}

// change is Change. What comes after it, before another change can begin, is done by after.
func (f *Folder) change(ctx context.Context, name string, decide func(*Record) error, after func()) (Record, error) {
	if err := f.here(); err != nil {
		return Record{}, err
	}
	dir := f.path(name)
	if err := os.Mkdir(dir, 0o700); err == nil {
		if err := syncPath(f.root); err != nil {
			return Record{}, err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return Record{}, err
	}
	wait, cancel := context.WithTimeout(ctx, f.within)
	defer cancel()
	unlock, err := hold(wait, filepath.Join(dir, guardFile))
	if err != nil {
		return Record{}, err
	}
	defer unlock()
	before, err := f.Read(name)
	if err != nil {
		return Record{}, err
	}
	next := before
	if before.Lock != nil { // decide may write into it
		l := *before.Lock
		next.Lock = &l
	}
	if err := decide(&next); err != nil {
		return before, err
	}
	text, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return before, err
	}
	if err := replace(filepath.Join(dir, recordFile), append(text, '\n')); err != nil {
		return next, err
	}
	if after != nil {
		after()
	}
	return next, nil
}

// Locked returns the records with a lock. A record that has not changed is not read again.
// With an error some may be missing.
func (f *Folder) Locked() (locked []Record, err error) {
	if err := f.here(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(f.root)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range entries {
		dir := filepath.Join(f.root, e.Name())
		info, statErr := os.Stat(filepath.Join(dir, recordFile))
		if errors.Is(statErr, fs.ErrNotExist) || errors.Is(statErr, syscall.ENOTDIR) { // not a state, or one that is being made
			continue
		}
		if statErr != nil {
			err = errors.Join(err, statErr)
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
		if known.record.Lock != nil && dir == f.path(known.record.Name) { // not a copy
			locked = append(locked, known.record)
		}
	}
	return locked, err
}
