// SPDX-License-Identifier: Apache-2.0

// Package fencetest tests a guard: it runs the guard clauses of docs/spec.md against a
// value behind the guard and names the clause that the guard violates.
//
// Run makes a subtest of every case; Check needs no testing.T and returns a Report:
//
//	func TestGuard(t *testing.T) {
//		fencetest.Run(t, &fencetest.Harness{Name: "mine", New: newValue})
//	}
//
// # Pauses
//
// What is wrong with most guards shows only if a writer is paused between its
// check and its write. Waiting for that to happen proves nothing, so the cases
// make it happen. The harness calls Step before every round trip to the
// resource, from a wrapped driver, a hook of the client or a transport; a case
// then stops a writer before its first round trip, before its second and so on,
// lets another holder do its work there, and lets the writer go on:
//
//	old holder  ── round trip ──┃ stopped ┃── round trip ──▶
//	new holder                     enter, write
//
// If the new holder is blocked because the stopped one has the row locked, the
// old one goes on after Harness.Patience: that order is a legal one too. So time
// decides which orders are seen, never whether a guard passes in one of them. A
// machine on which a call that is not blocked takes longer than the patience sees
// fewer orders, and may miss a mistake.
//
// A call that announces no step at all fails the cases that stop it: a harness
// that does not call Step proves nothing.
//
// # Lost replies
//
// A client that sends a write again after a lost reply reports what it did as
// refused, if another holder came in between. So Value.LoseReply reports by Lost when
// the reply is lost, and a case lets the new holder in at that moment.
//
// # Two processes
//
// A fence in the memory of a process, or a mutex around check and write, looks
// right to every process that uses the same guard. Value.Reopen makes a second guard
// over the same value, as another process has it, and the cases of G10 give the
// old and the new holder one each.
//
// # Testing the test
//
// Refuses runs a case against a guard that is wrong on purpose and fails if the
// case lets it pass. Write one for each mistake you fear. Trips counts round
// trips, so that the cost of a guard can be compared with the bare resource.
package fencetest
