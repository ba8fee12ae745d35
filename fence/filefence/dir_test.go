// SPDX-License-Identifier: Apache-2.0

package filefence_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/filefence"
	"github.com/fencelock/fencelock/fencetest"
)

// versions is a folder whose versions hold one file.
type versions struct {
	*filefence.Dir
	path string
}

func newVersions(t *testing.T, lock string) *versions {
	t.Helper()
	path := t.TempDir()
	p, err := filefence.NewLocal(filepath.Join(path, "current"), lock)
	if err != nil {
		t.Skip(err)
	}
	d, err := filefence.New(path, lock, p)
	if err != nil {
		t.Fatal(err)
	}
	return &versions{d, path}
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

func harness(t *testing.T, name string, change func(v *versions, value *fencetest.Value)) *fencetest.Harness {
	return &fencetest.Harness{Name: name,
		New: func(_ context.Context, lock string) (*fencetest.Value, error) {
			v := newVersions(t, lock)
			value := &fencetest.Value{Enter: v.Enter, Write: v.Write, Read: v.Read}
			change(v, value)
			return value, nil
		},
		Restart: func(context.Context) error { return nil }, // everything is in files
	}
}

func TestGuard(t *testing.T) {
	fencetest.Run(t, harness(t, "files", func(*versions, *fencetest.Value) {}))
}

// TestWrongGuardsAreRefused: what people do with a file and a rename.
func TestWrongGuardsAreRefused(t *testing.T) {
	replace := func(v *versions, value string) error {
		tmp := filepath.Join(v.path, "plain.new")
		return errors.Join(os.WriteFile(tmp, []byte(value), 0o600), os.Rename(tmp, filepath.Join(v.path, "plain")))
	}
	plain := func(v *versions, value *fencetest.Value) {
		value.Read = func(context.Context) (string, error) {
			text, err := os.ReadFile(filepath.Join(v.path, "plain"))
			if errors.Is(err, os.ErrNotExist) {
				return "", nil
			}
			return string(text), err
		}
		value.Enter = func(ctx context.Context) (string, error) {
			if _, err := v.Dir.Enter(ctx); err != nil {
				return "", err
			}
			return value.Read(ctx)
		}
	}
	t.Run("rename", func(t *testing.T) {
		fencetest.Refuses(t, harness(t, "atomic rename without a guard", func(v *versions, value *fencetest.Value) {
			plain(v, value)
			value.Write = func(_ context.Context, text string) error { return replace(v, text) }
		}), "G2/delayed-writer")
	})
	t.Run("check, then rename", func(t *testing.T) {
		fencetest.Refuses(t, harness(t, "check the pointer, then rename", func(v *versions, value *fencetest.Value) {
			plain(v, value)
			value.Write = func(ctx context.Context, text string) error {
				if _, err := v.Dir.Enter(ctx); err != nil {
					return err
				}
				fencetest.Step(ctx)
				return replace(v, text)
			}
		}), "G4/write-in-steps")
	})
}

func entries(t *testing.T, path string) (folders []string) {
	t.Helper()
	all, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
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
		if err := v.Write(ctx, "x"); err != nil {
			t.Fatal(err)
		}
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

func TestRefusedAndFailedVersionsAreRemoved(t *testing.T) {
	v := newVersions(t, "a")
	if err := v.Write(fence.With(t.Context(), fence.Mark{Lock: "a", Token: 768}), "x"); err != nil {
		t.Fatal(err)
	}
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

// TestWaitingEndsWithTheContext: somebody else keeps the lock of the kernel.
func TestWaitingEndsWithTheContext(t *testing.T) {
	v := newVersions(t, "a")
	release, err := filefence.Hold(t.Context(), filepath.Join(v.path, "current"))
	if err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
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
	// An empty file is no pointer, and must not count as "nobody was here".
	if _, err := p.Enter(fence.With(t.Context(), fence.Mark{Lock: "a", Token: 512})); err == nil {
		t.Error("a broken pointer was taken for a fresh one")
	}
}
