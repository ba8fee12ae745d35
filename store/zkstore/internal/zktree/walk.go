// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fencelock/fencelock/driver"
)

// list walks the tree below the root, because a lock may be anywhere in it. A node is a lock if a
// child of it is a claim of the recipe. The cursor is the last name shown. Below the root, what this
// user may not read is left out.
func (k *Curator) list(c *call, s *Store, q driver.ListQuery) (driver.Page, error) {
	w := walk{Curator: k, c: c, s: s, q: q}
	if err := w.visit(k.Root); err != nil {
		return driver.Page{}, err
	}
	return w.page, nil
}

type walk struct {
	*Curator
	c    *call
	s    *Store
	q    driver.ListQuery
	page driver.Page
	full bool
}

// visit shows the locks at a path and below it, in the order of inOrder.
func (w *walk) visit(path string) error {
	name, below := strings.CutPrefix(path, w.Root+"/")
	if path == w.Sessions || path == "/zookeeper" || below && !reaches(name, w.q) {
		return nil
	}
	children, _, err := w.c.children(orTop(path))
	if err != nil {
		if below && errors.Is(err, zk.ErrNoAuth) {
			return nil
		}
		return err
	}
	slices.Sort(children)
	claims, _, _ := w.arrange(children)
	if below && len(claims) > 0 {
		if err := w.show(name); err != nil {
			return err
		}
	}
	for _, child := range children {
		if _, _, claim := contender(child); claim || w.full {
			continue
		}
		if err := w.visit(path + "/" + child); err != nil {
			return err
		}
	}
	return nil
}

// show adds a lock to the page. A path of several recipes is not shown.
func (w *walk) show(name string) error {
	if !strings.HasPrefix(name, w.q.Prefix) || w.q.Cursor != "" && inOrder(name, w.q.Cursor) <= 0 {
		return nil
	}
	if len(w.page.Locks) == w.q.Max {
		last := w.page.Locks[len(w.page.Locks)-1]
		w.page.Next, w.full = last.Name, true
		return nil
	}
	st, err := w.s.status(w.c, name)
	if err != nil && !errors.Is(err, driver.ErrRefused) && !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	if len(st.Holders) > 0 || st.Waiting > 0 {
		w.page.Locks = append(w.page.Locks, st)
	}
	return nil
}

// reaches reports whether a name, or one below it, can belong to a page: it does not come before the
// cursor, and the prefix does not exclude it.
func reaches(name string, q driver.ListQuery) bool {
	before := q.Cursor != "" && inOrder(name, q.Cursor) < 0 && !strings.HasPrefix(q.Cursor, name+"/")
	return !before && (strings.HasPrefix(name, q.Prefix) || strings.HasPrefix(q.Prefix, name+"/"))
}

// inOrder compares names in the order of a walk: node by node, and a node before those below it.
func inOrder(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}

// orTop is the path for a request.
func orTop(path string) string {
	if path == "" {
		return "/"
	}
	return path
}
