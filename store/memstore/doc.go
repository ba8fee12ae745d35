// SPDX-License-Identifier: Apache-2.0

// Package memstore keeps locks in the memory of one process. It is the
// reference store: the first one to read, the one the core is tested with, and
// the one to use in the tests of an application. It gives no exclusion between
// processes.
//
// How to open it:
//
//	store := memstore.New(nil)
//	client, err := fencelock.New(store, nil)
//
// Every client made from the same *Store stands for a separate process.
//
// # How it is built
//
//	Store ── shard ─┬─ sessions: id → liveness (end, claims, tombstoned, broken)
//	                └─ locks: name → lock { grants, queue }
//
// A shard is a small machine without goroutines and without timers. Every call
// first ends the sessions whose time has come (sweep), then does its work, then
// grants to the claims that fit at the front of the queue (promote). So a lock whose
// holder died is free at the next call, as in the servers that a store stands
// for; nothing happens by itself.
//
// # Guarantees
//
// Tokens are strict. The data is volatile: Reset, Restore and Restart stand
// for what servers do in a crash or a failover, and each begins a new
// incarnation. With Options.Grace the store then grants nothing until the
// longest allowed session must have ended, and holders reclaim.
//
// # Time
//
// A store has its own clock, so that a test can let the clocks of several
// stores differ: Options.Now and StepClock. Inside a testing/synctest bubble
// time.Now is fake already.
package memstore
