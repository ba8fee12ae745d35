// SPDX-License-Identifier: Apache-2.0

package filefence_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/fence/filefence"
	"github.com/fencelock/fencelock/internal/must"
)

// versions is a folder whose versions hold one file.
type versions struct {
	*filefence.Dir
	path string
}

func openVersions(path, lock string) (*versions, error) {
	p, err := filefence.NewLocal(filepath.Join(path, "current"), lock)
	if err != nil {
		return nil, err
	}
	d, err := filefence.New(path, lock, p)
	return &versions{d, path}, err
}

func newVersions(t *testing.T, lock string) *versions {
	t.Helper()
	v, err := openVersions(t.TempDir(), lock)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	must.OK(t, err)
	return v
}

func load(folder string, err error) (string, error) {
	if err != nil || folder == "" {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(folder, "v"))
	return string(text), err
}

func (v *versions) Enter(ctx context.Context) (string, error) {
	fencetest.Step(ctx)
	return load(v.Dir.Enter(ctx))
}

// Write may be stopped when its version is written and the pointer not switched.
func (v *versions) Write(ctx context.Context, value string) error {
	fencetest.Step(ctx)
	return v.Publish(ctx, func(folder string) error {
		defer fencetest.Step(ctx)
		return os.WriteFile(filepath.Join(folder, "v"), []byte(value), 0o600)
	})
}

func (v *versions) Read(ctx context.Context) (string, error) { return load(v.Current(ctx)) }

// LoseReply writes to the end and does not hear of it.
func (v *versions) LoseReply(lock string) func(ctx context.Context, value string) error {
	return func(ctx context.Context, value string) error {
		p, err := filefence.NewLocal(filepath.Join(v.path, "current"), lock)
		if err != nil {
			return err
		}
		d, err := filefence.New(v.path, lock, deaf{p})
		if err != nil {
			return err
		}
		return (&versions{d, v.path}).Write(ctx, value)
	}
}

var errLost = errors.New("the connection to the pointer broke")

// deaf is a pointer that is switched and whose answer gets lost.
type deaf struct{ filefence.Pointer }

func (d deaf) Set(ctx context.Context, name string) error {
	if err := d.Pointer.Set(ctx, name); err != nil {
		return err
	}
	fencetest.Lost(ctx)
	return errLost
}

func (v *versions) value() *fencetest.Value {
	return &fencetest.Value{Enter: v.Enter, Write: v.Write, Read: v.Read}
}

// harness gives each value its own folders. After a restart every call on an older
// value is made by another process, which has nothing but the files.
func harness(t *testing.T, name string, change func(v *versions, value *fencetest.Value)) *fencetest.Harness {
	var restarts atomic.Int32
	return &fencetest.Harness{Name: name,
		New: func(_ context.Context, lock string) (*fencetest.Value, error) {
			v := newVersions(t, lock)
			value := v.value()
			value.LoseReply = v.LoseReply(lock)
			change(v, value)
			value.Reopen = func(context.Context) (*fencetest.Value, error) {
				w, err := openVersions(v.path, lock)
				if err != nil {
					return nil, err
				}
				value := w.value()
				change(w, value)
				return value, nil
			}
			enter, write, before := value.Enter, value.Write, restarts.Load()
			call := request{Path: v.path, Lock: lock, Forgetful: name == forgetfulName}
			value.Enter = func(ctx context.Context) (string, error) {
				if restarts.Load() != before {
					return call.elsewhere(ctx)
				}
				return enter(ctx)
			}
			value.Write = func(ctx context.Context, text string) error {
				if restarts.Load() == before {
					return write(ctx, text)
				}
				call := call
				call.Write, call.Value = true, text
				_, err := call.elsewhere(ctx)
				return err
			}
			return value, nil
		},
		Restart: func(context.Context) error { restarts.Add(1); return nil },
	}
}

func TestGuard(t *testing.T) {
	fencetest.Run(t, harness(t, "files", func(*versions, *fencetest.Value) {}))
}

func entries(t *testing.T, path string) (folders []string) {
	t.Helper()
	all, err := os.ReadDir(path)
	must.OK(t, err)
	for _, e := range all {
		if e.IsDir() {
			folders = append(folders, e.Name())
		}
	}
	return folders
}

func TestVersionsAreNamedByTheTokenAndNeverChanged(t *testing.T) {
	v := newVersions(t, "a")
	ctx := fence.With(t.Context(), fence.Mark{Lock: "a", Token: 512})
	var seen []string
	for range 2 {
		must.OK(t, v.Write(ctx, "x"))
		current, err := v.Current(ctx)
		if err != nil || !strings.HasPrefix(filepath.Base(current), "512-") {
			t.Fatalf("got %q, %v, want a folder named by the token", current, err)
		}
		seen = append(seen, current)
	}
	if seen[0] == seen[1] {
		t.Error("a retry wrote into the version that was published before")
	}
}

// TestOthersMayReadAVersion: its folder is as open as any that this process
// makes. The pointer that leads there can be read by all.
func TestOthersMayReadAVersion(t *testing.T) {
	v := newVersions(t, "a")
	ctx := fence.With(t.Context(), fence.Mark{Lock: "a", Token: 512})
	must.OK(t, v.Write(ctx, "x"))
	plain := filepath.Join(t.TempDir(), "plain")
	must.OK(t, os.Mkdir(plain, 0o777))
	current, err := v.Current(ctx)
	must.OK(t, err)
	got, err := os.Stat(current)
	want, err2 := os.Stat(plain)
	if err != nil || err2 != nil || got.Mode() != want.Mode() {
		t.Errorf("a version is %v, a folder by itself %v: %v, %v", got.Mode(), want.Mode(), err, err2)
	}
}

func TestRefusedAndFailedVersionsAreRemoved(t *testing.T) {
	v := newVersions(t, "a")
	must.OK(t, v.Write(fence.With(t.Context(), fence.Mark{Lock: "a", Token: 768}), "x"))
	before := entries(t, v.path)
	old := fence.With(t.Context(), fence.Mark{Lock: "a", Token: 512})
	if err := v.Write(old, "late"); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a late version: got %v", err)
	}
	failed := errors.New("disk full")
	if err := v.Publish(old, func(string) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("a version that failed: got %v", err)
	}
	if after := entries(t, v.path); len(after) != len(before) {
		t.Errorf("left behind: %v, before %v", after, before)
	}
}

// TestWaitingEndsWithTheContext: another process holds the file lock.
func TestWaitingEndsWithTheContext(t *testing.T) {
	v := newVersions(t, "a")
	release, err := filefence.Hold(t.Context(), filepath.Join(v.path, "current"))
	must.OK(t, err)
	defer release()
	ctx, cancel := context.WithCancel(fence.With(t.Context(), fence.Mark{Lock: "a", Token: 512}))
	done := make(chan error)
	go func() { _, err := v.Dir.Enter(ctx); done <- err }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestBadFoldersAreErrors(t *testing.T) {
	if _, err := filefence.New(t.TempDir(), "a", nil); err == nil {
		t.Error("no pointer: no error")
	}
	file := filepath.Join(t.TempDir(), "f")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	p, err := filefence.NewLocal(file, "a")
	if err != nil {
		t.Skip(err)
	}
	if _, err := filefence.New(t.TempDir(), "", p); err == nil {
		t.Error("no lock: no error")
	}
	if _, err := filefence.NewLocal(file, ""); err == nil {
		t.Error("a pointer without a lock: no error")
	}
	for _, path := range []string{file, file + "/none"} {
		if _, err := filefence.New(path, "a", p); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
	// An empty file is not a pointer, and must not count as one that no holder has written.
	if _, err := p.Enter(fence.With(t.Context(), fence.Mark{Lock: "a", Token: 512})); err == nil {
		t.Error("a broken pointer was taken for a fresh one")
	}
}

// TestOnlyTheOwnerCanTakeTheFileLock: flock asks for no more than an open file, so
// a file that others may read lets them block all writers.
func TestOnlyTheOwnerCanTakeTheFileLock(t *testing.T) {
	v := newVersions(t, "a")
	must.OK(t, v.Write(fence.With(t.Context(), fence.Mark{Lock: "a", Token: 512}), "x"))
	for name, want := range map[string]os.FileMode{"current": 0o644, "current.lock": 0o600} {
		if info, err := os.Stat(filepath.Join(v.path, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
}
