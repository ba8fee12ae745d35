// SPDX-License-Identifier: Apache-2.0

package tfstate

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
)

func open(t *testing.T, root string) *Folder {
	t.Helper()
	f, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *Folder) mustTake(t *testing.T, name string, l Lock) {
	t.Helper()
	if l.Info == nil {
		l.Info = []byte("{}")
	}
	if _, err := f.Change(t.Context(), name, func(r *Record) error { return r.Take(l) }); err != nil {
		t.Fatal(err)
	}
}

func (f *Folder) text(t *testing.T, name string) string {
	t.Helper()
	file, err := f.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	if file == nil {
		return ""
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (f *Folder) write(ctx context.Context, name, id, text string) error {
	return f.Write(ctx, name, strings.NewReader(text), func(r *Record) error { return r.Admits(id) })
}

// TestOneOfManyTakes: of servers that lock at once, one does.
func TestOneOfManyTakes(t *testing.T) {
	root := t.TempDir() + "/states"
	var all sync.WaitGroup
	var took atomic.Int64
	for i := range 8 {
		f := open(t, root) // as another process has it
		all.Go(func() {
			_, err := f.Change(t.Context(), "prod", func(r *Record) error {
				return r.Take(Lock{ID: string(rune('a' + i)), Token: fencelock.Token(256 * (i + 1)), Info: []byte("{}")})
			})
			var locked *LockedError
			if err == nil {
				took.Add(1)
			} else if !errors.As(err, &locked) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if took.Load() != 1 {
		t.Errorf("%d took it", took.Load())
	}
}

// TestLateWriteIsRefused: a write that began under a lock that was unlocked since changes
// nothing, and leaves nothing.
func TestLateWriteIsRefused(t *testing.T) {
	f := open(t, t.TempDir()+"/states")
	f.mustTake(t, "prod", Lock{ID: "a1", Token: 256})
	if err := f.write(t.Context(), "prod", "a1", "one"); err != nil {
		t.Fatal(err)
	}
	late, body := io.Pipe()
	done := make(chan error)
	go func() {
		done <- f.Write(t.Context(), "prod", late, func(r *Record) error { return r.Admits("a1") })
	}()
	if _, err := body.Write([]byte("la")); err != nil { // admitted so far
		t.Fatal(err)
	}
	if _, err := f.Change(t.Context(), "prod", func(r *Record) error { return r.Give("a1") }); err != nil {
		t.Fatal(err)
	}
	f.mustTake(t, "prod", Lock{ID: "b7", Token: 512})
	if err := f.write(t.Context(), "prod", "b7", "two"); err != nil {
		t.Fatal(err)
	}
	_ = body.Close()
	var locked *LockedError
	if err := <-done; !errors.As(err, &locked) || locked.Lock.ID != "b7" {
		t.Errorf("got %v", err)
	}
	if got := f.text(t, "prod"); got != "two" {
		t.Errorf("the state is %q", got)
	}
	if left, err := filepath.Glob(f.path("prod") + "/*" + stateEnd); err != nil || len(left) != 2 {
		t.Errorf("versions: %q, %v", left, err)
	}
}

// TestBrokenBodyChangesNothing: a body that ends with an error is not a version.
func TestBrokenBodyChangesNothing(t *testing.T) {
	f := open(t, t.TempDir()+"/states")
	f.mustTake(t, "prod", Lock{ID: "a1", Token: 256})
	if err := f.write(t.Context(), "prod", "a1", "one"); err != nil {
		t.Fatal(err)
	}
	late, body := io.Pipe()
	go func() { _, _ = body.Write([]byte("half")); _ = body.CloseWithError(io.ErrUnexpectedEOF) }()
	err := f.Write(t.Context(), "prod", late, func(r *Record) error { return r.Admits("a1") })
	if left, _ := filepath.Glob(f.path("prod") + "/*" + stateEnd); !errors.Is(err, io.ErrUnexpectedEOF) || f.text(t, "prod") != "one" || len(left) != 1 {
		t.Errorf("got %v; the state is %q, versions %q", err, f.text(t, "prod"), left)
	}
}

// TestLockedFollowsOtherServers: what other servers lock and unlock is seen.
func TestLockedFollowsOtherServers(t *testing.T) {
	root := t.TempDir() + "/states"
	one, two := open(t, root), open(t, root)
	for range 20 { // however short the time between two changes is
		one.mustTake(t, "a", Lock{ID: "a1", Token: 256})
		if locked, err := two.Locked(); err != nil || len(locked) != 1 || locked[0].Name != "a" {
			t.Fatalf("got %+v, %v", locked, err)
		}
		if _, err := one.Change(t.Context(), "a", func(r *Record) error { return r.Give("a1") }); err != nil {
			t.Fatal(err)
		}
		if locked, err := two.Locked(); err != nil || len(locked) != 0 {
			t.Fatalf("got %+v, %v", locked, err)
		}
	}
}

// TestNamesHaveFolders: any name has its own folder inside of the root.
func TestNamesHaveFolders(t *testing.T) {
	f := open(t, t.TempDir()+"/states")
	seen := map[string]bool{}
	for _, name := range []string{"a", "A", "a/b", "a_b", "..", "../../etc", "/", "état", strings.Repeat("x", 512), strings.Repeat("x", 511) + "y", "a\x00"} {
		path := f.path(name)
		if seen[path] || filepath.Dir(path) != f.root || len(filepath.Base(path)) > 100 {
			t.Errorf("%q: %s", name, path)
		}
		seen[path] = true
	}
}

// TestOldVersionsAreRemoved: the last ones stay, and those that are new.
func TestOldVersionsAreRemoved(t *testing.T) {
	f := open(t, t.TempDir()+"/states")
	f.mustTake(t, "prod", Lock{ID: "a1", Token: 256})
	for range keepVersions + 5 {
		if err := f.write(t.Context(), "prod", "a1", "x"); err != nil {
			t.Fatal(err)
		}
	}
	files, _ := filepath.Glob(f.path("prod") + "/*" + stateEnd)
	if len(files) != keepVersions+5 {
		t.Errorf("%d versions before they are old", len(files))
	}
	long := time.Now().Add(-2 * keepFor)
	for _, file := range files {
		if err := os.Chtimes(file, long, long); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.write(t.Context(), "prod", "a1", "last"); err != nil {
		t.Fatal(err)
	}
	if files, _ = filepath.Glob(f.path("prod") + "/*" + stateEnd); len(files) != keepVersions+1 || f.text(t, "prod") != "last" {
		t.Errorf("%d versions are left", len(files))
	}
}

// TestFolderOfOthersIsRejected: states have passwords in them.
func TestFolderOfOthersIsRejected(t *testing.T) {
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(root); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("got %v", err)
	}
}
