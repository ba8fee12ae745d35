// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// AddToken makes a token for a user of a file and returns it. A user that is not there yet is
// added with a grant, unless it has no rights, and so is the file. The rights of a user that is there stay as they are,
// and its other tokens stay valid; a grant that differs from its rights is rejected. Without a grant a new user sees all
// locks. The file is replaced in one step.
func AddToken(path, name string, grant *Grant) (token string, added bool, err error) {
	unlock, err := hold(path + ".lock")
	if err != nil {
		return "", false, err
	}
	defer unlock()
	file := &File{}
	switch text, err := os.ReadFile(path); {
	case err == nil:
		if file, err = Decode(text); err != nil {
			return "", false, fmt.Errorf("%s: %w", path, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return "", false, err
	}
	token, hash := NewToken()
	at := slices.IndexFunc(file.Users, func(u User) bool { return u.Name == name })
	switch {
	case at < 0:
		file.Users = append(file.Users, User{Name: name, Grants: grantsOf(cmp.Or(grant, &Grant{May: []Right{See}}))})
		at, added = len(file.Users)-1, true
	case grant != nil && !sameGrants(file.Users[at].Grants, grantsOf(grant)):
		return "", false, fmt.Errorf("%s has other rights in %s, and a token does not change them: edit \"rights\" there first, or leave --may and --prefix out", name, path)
	}
	file.Users[at].Tokens = append(file.Users[at].Tokens, hash)
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return "", false, err
	}
	if _, err := Parse(text); err != nil {
		return "", false, fmt.Errorf("%s: %w", path, err)
	}
	return token, added, replace(path, append(text, '\n'))
}

// hold takes a lock of the kernel, and waits for it. Two commands that read the file before either has replaced it would lose a
// user whose token was printed. The file of the lock stays: to remove it would let two take it.
func hold(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil // closing gives it back
}

// grantsOf are the rights of a user that has one grant. One without rights is not written.
func grantsOf(g *Grant) []Grant {
	if len(g.May) == 0 {
		return []Grant{}
	}
	return []Grant{*g}
}

// sameGrants reports whether two lists are the same up to the order of rights.
func sameGrants(a, b []Grant) bool {
	return slices.EqualFunc(a, b, func(a, b Grant) bool {
		return a.Prefix == b.Prefix && slices.Equal(slices.Sorted(slices.Values(a.May)), slices.Sorted(slices.Values(b.May)))
	})
}

// replace writes a file. A new one can be read by its owner only; one that is there keeps its
// owner, group and mode, because root adds users for a server that is not root.
func replace(path string, text []byte) error {
	old, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".users-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if old != nil {
		err = errors.Join(err, likeOld(f, old))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// likeOld gives a file the owner, group and mode of another.
func likeOld(f *os.File, old os.FileInfo) error {
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	now, ok := mine.Sys().(*syscall.Stat_t)
	was, ok2 := old.Sys().(*syscall.Stat_t)
	if ok && ok2 && (now.Uid != was.Uid || now.Gid != was.Gid) {
		if err := f.Chown(int(was.Uid), int(was.Gid)); err != nil {
			return fmt.Errorf("the file would no longer belong to its owner, so it is not changed; run the command as root: %w", err)
		}
	}
	return f.Chmod(old.Mode().Perm())
}
