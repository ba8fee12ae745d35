// SPDX-License-Identifier: Apache-2.0

package fencelock

import "github.com/fencelock/fencelock/driver"

// Token is a fencing token: unique per acquisition and strictly increasing per
// lock name. Give it to the resource the lock protects, which must refuse a
// token older than the newest it has seen. It fits a signed 64-bit column.
type Token = driver.Token

// Fencing is how far tokens can be trusted: NoFencing, BestEffort or Strict.
type Fencing = driver.Fencing

// The strengths of fencing; see Guarantees.
const (
	NoFencing  = driver.NoFencing
	BestEffort = driver.BestEffort
	Strict     = driver.Strict
)

// Notice is how soon a holder is notified that another process waits: NoNotice,
// NoticeAtRenewal or NoticeAtOnce.
type Notice = driver.Notice

// The values of Guarantees.Wanted.
const (
	NoNotice        = driver.NoNotice
	NoticeAtRenewal = driver.NoticeAtRenewal
	NoticeAtOnce    = driver.NoticeAtOnce
)

// Mode is how a lock is held: Exclusive or Shared.
type Mode = driver.Mode

// The modes of an acquisition.
const (
	Exclusive = driver.Exclusive
	Shared    = driver.Shared
)

// SessionID names the session of a process on a shard.
type SessionID = driver.SessionID

// Record is what a client writes about itself into its claim, for people.
type Record = driver.Record

// Holder is one holder of a lock as the store sees it.
type Holder = driver.Holder

// Waiter is one claim that waits for a lock.
type Waiter = driver.Waiter

// Status is a lock as the store sees it.
type Status = driver.Status

// Finding is one thing that the Check method of a store found about its server: its
// Severity, a stable Code, the Node, the Reason it matters and what to change, Fix.
type Finding = driver.Finding

// Severity is how bad a Finding is: driver.Note, driver.Warning or driver.Danger, the worst last.
type Severity = driver.Severity
