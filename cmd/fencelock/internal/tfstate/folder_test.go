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
	if err := Init(root); err != nil {
		t.Fatal(err)
	}
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
	if _, err := f.Change(t.Context(), "prod", func(r *Record) error { return r.Give("a1", "ann") }); err != nil {
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
	for i := range 20 { // however short the time between two changes is
		one.mustTake(t, "a", Lock{ID: "a1", Token: fencelock.Token(256 * (i + 1))})
		if locked, err := two.Locked(); err != nil || len(locked) != 1 || locked[0].Name != "a" {
			t.Fatalf("got %+v, %v", locked, err)
		}
		if _, err := one.Change(t.Context(), "a", func(r *Record) error { return r.Give("a1", "ann") }); err != nil {
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

// TestOldVersionsAreRemoved: however fast they are written, only the last ones stay. What
// another writer has not finished stays, and what a dead one left does not.
func TestOldVersionsAreRemoved(t *testing.T) {
	f := open(t, t.TempDir()+"/states")
	f.mustTake(t, "prod", Lock{ID: "a1", Token: 256})
	begun, dead := f.path("prod")+"/20000101-begun"+stateEnd+partEnd, f.path("prod")+"/20000101-dead"+stateEnd+partEnd
	for _, path := range []string{begun, dead} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-2 * partFor)
	if err := os.Chtimes(dead, long, long); err != nil {
		t.Fatal(err)
	}
	for range keepVersions + 5 {
		if err := f.write(t.Context(), "prod", "a1", "x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.write(t.Context(), "prod", "a1", "last"); err != nil {
		t.Fatal(err)
	}
	if files := ending(f.path("prod"), stateEnd); len(files) != keepVersions+1 || f.text(t, "prod") != "last" {
		t.Errorf("%d versions are left", len(files))
	}
	if parts := ending(f.path("prod"), partEnd); len(parts) != 1 || parts[0] != filepath.Base(begun) {
		t.Errorf("parts: %q", parts)
	}
}

// TestMissingFolderIsNotANewOne: a folder whose disk is not mounted is not an empty one, at the
// start and later.
func TestMissingFolderIsNotANewOne(t *testing.T) {
	root := t.TempDir() + "/states"
	if _, err := Open(root); err == nil || !strings.Contains(err.Error(), "fencelock serve states") {
		t.Errorf("not there: %v", err)
	}
	f := open(t, root)
	f.mustTake(t, "prod", Lock{ID: "a1", Token: 256})
	if err := Init(root); err != nil { // again
		t.Fatal(err)
	}
	check := func(what string, gone bool) {
		t.Helper()
		_, readErr := f.Read("other")
		_, getErr := f.Get("prod")
		_, lockedErr := f.Locked()
		_, changeErr := f.Change(t.Context(), "other", func(*Record) error { return nil })
		for call, err := range map[string]error{"read": readErr, "get": getErr, "locked": lockedErr, "change": changeErr, "clear": f.Clear(t.Context(), "none")} {
			if errors.Is(err, ErrGone) != gone || !gone && err != nil {
				t.Errorf("%s, %s: %v", what, call, err)
			}
		}
	}
	check("the first", false)
	if err := os.Rename(root, root+".away"); err != nil {
		t.Fatal(err)
	}
	check("none", true)
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	check("an empty one", true)
	if err := Init(root); err != nil {
		t.Fatal(err)
	}
	check("a new one", true)
	if err := errors.Join(os.RemoveAll(root), os.Rename(root+".away", root)); err != nil {
		t.Fatal(err)
	}
	check("the first again", false)
}

// TestLateWriteOfTheSameLockIsRefused: a write that hung in a server, and was retried on another
// one, does not replace the next.
func TestLateWriteOfTheSameLockIsRefused(t *testing.T) {
	f := open(t, t.TempDir()+"/states")
	f.mustTake(t, "prod", Lock{ID: "a1", Token: 256})
	state := func(serial string) string {
		return `{"version":4,"resources":[{"a":[1,{"serial":99}]}],"serial":` + serial + `,"lineage":"x","outputs":{}}`
	}
	for _, serial := range []string{"5", "5", "6"} {
		if err := f.write(t.Context(), "prod", "a1", state(serial)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.write(t.Context(), "prod", "a1", state("5")); !errors.Is(err, ErrOld) {
		t.Errorf("got %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.write(gone, "prod", "a1", state("7")); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that gave up: %v", err)
	}
	if got := f.text(t, "prod"); got != state("6") {
		t.Errorf("the state is %s", got)
	}
	if parts := ending(f.path("prod"), partEnd); len(parts) > 0 {
		t.Errorf("left: %q", parts)
	}
	if _, err := f.Change(t.Context(), "prod", func(r *Record) error { return r.Give("a1", "ann") }); err != nil {
		t.Fatal(err)
	}
	f.mustTake(t, "prod", Lock{ID: "b7", Token: 512})
	if err := f.write(t.Context(), "prod", "b7", state("3")); err != nil {
		t.Errorf("an operator pushes an older state: %v", err)
	}
}

// TestPausedServerDoesNotStopOthersForLong: a change that waits for another server ends.
func TestPausedServerDoesNotStopOthersForLong(t *testing.T) {
	root := t.TempDir() + "/states"
	paused, other := open(t, root), open(t, root)
	other.within = 20 * time.Millisecond
	_, err := paused.Change(t.Context(), "prod", func(*Record) error {
		_, err := other.Change(t.Context(), "prod", func(*Record) error { return nil })
		if !errors.Is(err, ErrBusy) {
			t.Errorf("got %v", err)
		}
		_, err = other.Change(t.Context(), "dev", func(*Record) error { return nil })
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestLockedReportsWhatItCannotRead: a record that cannot be read may be one with a lock, and a
// copy of a folder is not a state.
func TestLockedReportsWhatItCannotRead(t *testing.T) {
	f := open(t, t.TempDir()+"/states")
	f.mustTake(t, "a", Lock{ID: "a1", Token: 256})
	if err := os.CopyFS(f.path("a")+".backup", os.DirFS(f.path("a"))); err != nil {
		t.Fatal(err)
	}
	if locked, err := f.Locked(); err != nil || len(locked) != 1 {
		t.Errorf("with a copy: %+v, %v", locked, err)
	}
	if err := os.Symlink(filepath.Base(f.path("c")), f.path("c")); err != nil { // a loop, which cannot be followed
		t.Fatal(err)
	}
	if locked, err := f.Locked(); err == nil || len(locked) != 1 {
		t.Errorf("with a loop: %+v, %v", locked, err)
	}
}

// TestClearRemovesAllVersions: they have passwords in them. The fence stays.
func TestClearRemovesAllVersions(t *testing.T) {
	f := open(t, t.TempDir()+"/states")
	f.mustTake(t, "prod", Lock{ID: "a1", Token: 256})
	for range 3 {
		if err := f.write(t.Context(), "prod", "a1", "x"); err != nil {
			t.Fatal(err)
		}
	}
	var locked *LockedError
	if err := f.Clear(t.Context(), "prod"); !errors.As(err, &locked) || f.text(t, "prod") != "x" {
		t.Errorf("a locked state: %v", err)
	}
	if _, err := f.Change(t.Context(), "prod", func(r *Record) error { return r.Give("a1", "ann") }); err != nil {
		t.Fatal(err)
	}
	if err := f.Clear(t.Context(), "prod"); err != nil {
		t.Fatal(err)
	}
	if left := ending(f.path("prod"), stateEnd); len(left) > 0 || f.text(t, "prod") != "" {
		t.Errorf("left: %q", left)
	}
	if r, err := f.Read("prod"); err != nil || r.Fence.Token != 256 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestFolderOfOthersIsRejected: states have passwords in them.
func TestFolderOfOthersIsRejected(t *testing.T) {
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Init(root); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("init: %v", err)
	}
	private := t.TempDir() + "/states"
	open(t, private)
	if err := os.Chmod(private, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(private); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("open: %v", err)
	}
}
