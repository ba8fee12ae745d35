// SPDX-License-Identifier: Apache-2.0

// Package testhook gives the simulator what fencelock and memstore do not
// export: a client on a clock of the test's choice, and what a store in memory
// still keeps. The packages set the functions when they are loaded; nothing but
// tests calls them.
package testhook

import (
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/clock"
	"github.com/fencelock/fencelock/internal/core"
)

// NewClient is fencelock.New with a clock. opts is a *fencelock.Options, and the
// client that is returned a *fencelock.Client.
var NewClient func(store driver.Store, opts any, clk *clock.Clock) (client any, err error)

// CoreOf returns the machine of a *fencelock.Client.
var CoreOf func(client any) *core.Client

// MemstoreRemains returns what a *memstore.Store keeps. It ends what has
// run out of its time, as every call does.
var MemstoreRemains func(store any) Remains

// MemstoreGrants returns the grants that a *memstore.Snapshot has, in no order.
var MemstoreGrants func(snapshot any) []Grant

// Grant is a grant of a session.
type Grant struct {
	Session driver.SessionID
	Name    string
	Token   driver.Token
}

// Remains is what a store in memory keeps.
type Remains struct {
	Sessions []Session
	// Kept are the names of locks that are kept taken although their claims are
	// gone.
	Kept []string
	// Reclaimed counts the names that a grace period needs to remember.
	Reclaimed int
	// Empty are the names of locks without a holder and without a queue.
	Empty []string
}

// Session is what a store in memory keeps for one session.
type Session struct {
	ID driver.SessionID
	// Granted and Queued are the names of the session's claims.
	Granted, Queued []string
	// Claims are the numbers of all of them, in no order.
	Claims []uint64
	// Tombstones, Ended and Broken count the claims that must not be granted any
	// more, those whose grant ended, and those that an operator broke.
	Tombstones, Ended, Broken int
}
