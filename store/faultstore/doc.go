// SPDX-License-Identifier: Apache-2.0

// Package faultstore bends the calls to a store: it loses requests and
// replies, delays, repeats and refuses them, cuts the connection, and lets the
// store pause, lose its data and step its clock. Tests use it to show that a lock
// stays a lock when the network and the server misbehave.
//
// A fault is a value that prints as one line, and that line can be parsed
// back. A test that fails prints the line; the line replays the test:
//
//	any(on(attempt, prob(0.2, 7, lose(reply))), during(3s, 5s, lose(request)), on(withdraw, dup))
//
// # Where the effects strike
//
// Every call goes this way. An effect further along does not strike a call
// that did not get there: where the request is lost, no reply is.
//
//	caller                        the network                         the store
//	  │
//	  ├─▶ cut ─▶ refuse, fail ─▶ lose(request) ─▶ delay(before, ─▶ pause ─▶ step ─▶ reset ──┐
//	  │                                                                                   call
//	  │                                                                                   call again: dup
//	  ◀── cut ◀──────────────────────────────────── after) ◀────── lose(reply) ◀────────────┘
//
// Up to the store the call certainly did nothing; behind it the store did its
// work and only the caller does not know.
//
//	lose(request)         The call is never executed. The caller gets
//	                      driver.ErrUnknown when its context ends, not earlier:
//	                      a black hole sends no error.
//	lose(reply)           The call is executed. The caller gets
//	                      driver.ErrUnknown when its context ends.
//	delay(before, after)  The call waits before it is executed, and the reply
//	                      before it is delivered. If the caller's context
//	                      ends first, the caller gets driver.ErrUnknown, and a
//	                      call not yet executed goes on without it and lands
//	                      late (see Store.Wait).
//	dup                   The call is executed twice, one right after the other,
//	                      and the second reply is returned, as by a client
//	                      library that sends again.
//	refuse                driver.ErrUnavailable at once; certainly not executed.
//	fail                  ErrDefinite at once; certainly not executed. It is an
//	                      error that no meaning of package driver covers, so
//	                      trying again does not help: a user without the
//	                      permission, a server out of memory.
//	reset(all)            Options.Reset(true) is called, then the call executed.
//	reset(some)           Options.Reset(false) is called, then the call executed:
//	                      a lagging replica takes over.
//	step(+5s)             Options.Step(5s) is called, then the call executed.
//	pause(d)              The store stands still for d: this call and all that
//	                      arrive during d wait, then are executed, late if
//	                      their callers have gone. See Pauser.
//	cut(d)                The connection of this wrapper is cut for d: this call
//	                      and all sent during d are lost as by lose(request),
//	                      replies and pushes that arrive during d as by
//	                      lose(reply), and notices that a claim waits. A call
//	                      that is already on its way to the store is executed.
//
// # Which calls they strike
//
//	on(op, f)              calls of one operation: open, keepalive, attempt,
//	                       await, withdraw, reclaim, close, inspect, list,
//	                       break or setlimit
//	name("orders/42", f)   calls about that lock, exactly
//	nth(n, f)              only the n-th call that gets to this place in the
//	                       expression, counted from 1
//	after(n, f)            all but the first n that get to this place
//	prob(p, seed, f)       each call with probability p
//	during(from, to, f)    calls made in that time since Wrap, to excluded
//	for(d, f)              all calls that get to this place, from the first one
//	                       on, for d
//	any(f, g, …)           f and g and …: all that strike
//	none                   no call
//
// The parts of any do not hide each other: each sees every call, so a part
// strikes the same calls whatever stands beside it, and a failing expression
// can be made smaller by leaving parts out. What strikes one call together is
// combined: delays and steps add up, the longest pause and cut count,
// reset(all) includes reset(some), anything else happens once.
//
// prob throws no dice. Its choice is a hash of the seed, the operation, the
// lock name (for a call about a session, its shard) and how many such calls
// this wrapper had before, so neither the scheduling of goroutines nor other
// parts of the expression change it. Two prob with one seed choose alike. nth
// and after do depend on the order of calls: put on and name around them where
// goroutines compete.
//
// An operation that fails for a whole TTL, whenever it comes, is a for: with
// on(reclaim, for(15s, refuse)) the first reclaim fails and so does every other
// one in the 15 seconds after it.
//
// # Grammar
//
//	fault    = "none" | "dup" | "refuse" | "fail"
//	         | "lose" "(" ( "request" | "reply" ) ")"
//	         | "reset" "(" ( "all" | "some" ) ")"
//	         | "delay" "(" duration "," duration ")"
//	         | ( "step" | "pause" | "cut" ) "(" duration ")"
//	         | "on" "(" op "," fault ")"
//	         | "name" "(" quoted "," fault ")"
//	         | ( "nth" | "after" ) "(" integer "," fault ")"
//	         | "prob" "(" number "," integer "," fault ")"
//	         | "during" "(" duration "," duration "," fault ")"
//	         | "for" "(" duration "," fault ")"
//	         | "any" "(" fault { "," fault } ")" .
//
// Durations are Go's (250ms, 1m30s), a step may have a sign, quoted is a Go
// string, and white space is free between words.
//
// # Await
//
// Await changes nothing in the store, so nothing about it is ever unknown:
// where another call would return driver.ErrUnknown, Await returns its
// context's error, as the contract asks. on(await, lose(reply)) is a lost push:
// the wrapped Await runs, its result is dropped, and the caller learns
// nothing until its context ends. An Await does not land late. A push that
// arrives during a pause is delivered at its end. dup awaits again after the
// first push, so it strikes only an Await that got a push.
//
// # Caveats
//
//   - A lost call with a context that never ends never returns.
//   - A late call may get to a session after Close returned. That is the fault
//     meant, but it is more than the contract allows the core: wrap stores
//     whose closed sessions answer driver.ErrGone then, as memstore does.
//   - A lost or late Open drops the session object it got. The session lives
//     in the store until it expires or is opened again with the same id.
//   - A call whose context has already ended is not sent, not struck and not
//     counted.
package faultstore
