// SPDX-License-Identifier: Apache-2.0

// Package adapters tests the packages under adapters/ with the real hosts, several processes
// and real servers. It is a module that is not released, because of what it requires.
//
// A replica is a process of the test program itself, in a role (replica_test.go). It writes
// what it does to the same Redis server, where the test reads it:
//
//	test ── starts ──▶ replica 1 ─┐
//	     ── starts ──▶ replica 2 ─┼─▶ Redis: locks, and the list "runs"
//	     ◀─ reads what ran ───────┘
package adapters
