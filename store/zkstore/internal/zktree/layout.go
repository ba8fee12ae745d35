// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"fmt"

	"github.com/fencelock/fencelock/driver"
)

// Layout is where locks are, and what the nodes of their claims are called. Its methods decide, and
// do no I/O but for makeLock and list.
type Layout interface {
	// caps returns what the layout can do, without what is the same for all layouts.
	caps() driver.Caps
	// alone reports whether the nodes of locks belong to this store alone: it may write to them,
	// and have children there that are not claims. Otherwise other programs count every child.
	alone() bool
	// refuses returns why a name cannot be that of a lock.
	refuses(name string) error
	// unfit returns why a claim cannot have the terms.
	unfit(t *driver.Terms) error
	// lock returns the node of a lock.
	lock(name string) string
	// above are the nodes that must be there before the first lock.
	above() []string
	// prefix is the name of a claim's node up to the place.
	prefix(n node) string
	// arrange puts the claims among the children of a lock into the order of the queue. A claim
	// whose creation was repeated has several nodes; the first counts, the others are extra.
	// strange is why the children do not show who holds the lock.
	arrange(children []string) (claims, extra []node, strange error)
	// revokes reports whether a queued claim asks holders of other programs to release.
	revokes() bool
	// makeLock creates the node of a lock, and what is above it.
	makeLock(c *call, s *Store, name string) error
	// list returns a page of locks.
	list(c *call, s *Store, q driver.ListQuery) (driver.Page, error)
}

// nativeLayout is the layout of zkstore.
type nativeLayout struct{ paths }

func (nativeLayout) caps() driver.Caps {
	return driver.Caps{
		Fencing: driver.Strict, Shared: true, Reentry: true, Listing: true,
		Assumes: "Tokens keep increasing as long as the ensemble keeps its data. An ensemble that was rebuilt, or restored from a backup, starts with lower tokens.",
	}
}

func (nativeLayout) alone() bool { return true }

func (nativeLayout) refuses(string) error { return nil }

func (nativeLayout) unfit(*driver.Terms) error { return nil }

func (n nativeLayout) above() []string { return []string{n.locks()} }

func (nativeLayout) prefix(n node) string { return n.prefix() }

func (nativeLayout) arrange(children []string) (claims, extra []node, strange error) {
	claims, extra = arrange(children, parse)
	return claims, extra, nil
}

func (nativeLayout) revokes() bool { return false }

// placed is the name of a claim's node with its place, for a node that joins or replaces another.
func placed(l Layout, n node) string { return fmt.Sprintf("%s%010d", l.prefix(n), n.place) }
