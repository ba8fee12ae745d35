// SPDX-License-Identifier: Apache-2.0

// Package guarded runs guards for long: worker processes share one value behind a guard,
// under a lock in Redis, while the test pauses them for longer than the TTL and kills
// them. No write of a stale holder may survive.
//
//	go test ./lab/e2e/guarded -v                          # seconds for each guard
//	go test ./lab/e2e/guarded -v -guarded.long=10m -timeout 30m
//
// # Add a guard
//
// Write a file with one value of type guard and list it in guards, in run_test.go:
//
//	start  starts the server, once, with one empty value, and returns its URL
//	open   makes the value of a worker process: a fencetest.Value with Enter,
//	       Write and Read, as the proof of the guard has it
//
// # A run
//
// A worker locks, enters, thinks, writes, and tells the test about each step before and
// after it. The value that it writes is a new name; the name of the value that it
// replaces is in what it tells.
//
//	worker A   read v7 ┃ SIGSTOP ................. SIGCONT ┃ write v8 over v7: must be rejected
//	Redis          A's lease ends ┃
//	worker B                        lock, read v7, write v9
//
// The test waits for these events and not for times: a worker that is paused resumes when
// another has written. So a pause makes a late write, and a run in which none was
// rejected fails. Only a worker that is paused inside of a transaction keeps the others
// waiting; it resumes after four TTLs.
//
// # The judge
//
// From the last value the test goes back to the value that it replaced, and so on: that
// is the history that survived. All that a worker read, or that was acknowledged to it,
// must be there; nothing that was rejected may be; tokens never fall along it.
package guarded
