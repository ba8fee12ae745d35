// SPDX-License-Identifier: Apache-2.0

package tfstate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	stateEnd = ".tfstate"
	// partEnd is the end of a version that is not yet on record.
	partEnd = ".part"
	// keepVersions is how many versions are kept beside the current one, for an operator.
	keepVersions = 10
	// partFor is longer than any writer needs. What is older was left by a server that died.
	partFor = 15 * time.Minute
)

// Write makes body the current version, if admits allows it. It guarantees that readers see
// the version from before or all of body.
func (f *Folder) Write(ctx context.Context, name string, body io.Reader, admits func(*Record) error) error {
	if before, err := f.Read(name); err != nil {
		return err
	} else if err := admits(&before); err != nil { // decided again below; this one spares the disk
		return err
	}
	dir := f.path(name)
	v := Version{File: time.Now().UTC().Format("20060102T150405.000000Z") + "-" + rand.Text()[:8] + stateEnd}
	path := filepath.Join(dir, v.File)
	if err := writeNew(path+partEnd, body); err != nil {
		return err
	}
	defer os.Remove(path + partEnd)
	if err := v.read(path + partEnd); err != nil {
		return err
	}
	_, err := f.change(ctx, name, func(r *Record) error {
		if err := admits(r); err != nil {
			return err
		}
		if err := r.Write(v); err != nil {
			return err
		}
		if err := os.Rename(path+partEnd, path); err != nil {
			return err
		}
		return syncPath(dir) // before the record leads there
	}, func() { tidy(dir, v.File) })
	if err != nil {
		// The record may lead there if only its last step failed.
		if r, readErr := f.Read(name); readErr == nil && r.State != v.File {
			_ = os.Remove(path)
		}
	}
	return err
}

// read finds the lineage and the serial. A text that has none is a version without an order.
func (v *Version) read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	dec := json.NewDecoder(file)
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil
	}
	for found := 0; found < 2 && dec.More(); { // both are at its beginning
		key, err := dec.Token()
		if err != nil {
			return nil
		}
		switch key {
		case "lineage":
			found, err = found+1, dec.Decode(&v.Lineage)
		case "serial":
			found, err = found+1, dec.Decode(&v.Serial)
		default:
			err = skip(dec)
		}
		if err != nil {
			return nil
		}
	}
	return nil
}

// skip reads over a value without keeping it, because a state may be large.
func skip(dec *json.Decoder) error {
	for depth := 0; ; {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
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

// Clear removes a state that is not locked, with all its versions. The record stays: its
// fence keeps a late server out.
func (f *Folder) Clear(ctx context.Context, name string) error {
	dir := f.path(name)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return f.here()
	}
	var removed error
	_, err := f.change(ctx, name, (*Record).Clear, func() {
		for _, end := range []string{stateEnd, stateEnd + partEnd} {
			for _, file := range ending(dir, end) {
				removed = errors.Join(removed, os.Remove(filepath.Join(dir, file)))
			}
		}
	})
	return errors.Join(err, removed)
}

// tidy removes old versions. What cannot be removed now is removed by a later write.
func tidy(dir, current string) {
	versions := slices.DeleteFunc(ending(dir, stateEnd), func(name string) bool { return name == current })
	for _, name := range versions[:max(0, len(versions)-keepVersions)] {
		_ = os.Remove(filepath.Join(dir, name))
	}
	for _, name := range ending(dir, stateEnd+partEnd) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > partFor {
			_ = os.Remove(path)
		}
	}
}

// ending returns the files of a folder whose names have an end, by time.
func ending(dir, end string) (names []string) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, file := range files {
		if strings.HasSuffix(file.Name(), end) {
			names = append(names, file.Name())
		}
	}
	slices.Sort(names)
	return names
}
