// SPDX-License-Identifier: Apache-2.0

// Package httpfence carries a token over HTTP, from the holder of a lock to the
// service that keeps what the lock protects.
//
//	holder                                    service
//	lease in ctx ─▶ Transport ─▶ Fencing-Token: orders%2F42;768 ─▶ Handler ─▶ your handler ─▶ storage
//	                                                 refuses 512 ◀┘            ctx carries the mark  │
//	                                                 at once, if it saw 768                    guard ◀┘ decides
//
// # A middleware alone is not a guard
//
// Handler checks the token and then lets the request go on. Between the two, a
// newer holder can come and go, in this process or beside another replica that
// has seen other tokens, and after a restart it remembers nothing. It is check
// and then act, the very thing that fencing must not be. It spares the storage
// what is plainly late, gives a good answer, and puts the mark into the context
// of the request, where the guard of the storage finds it: sqlfence, redisfence
// and the others need nothing more. That guard decides. Package fencetest
// refuses a service whose storage has none.
//
// # The header is believed
//
// A client that may call the service may send any token, and a token that is too high
// shuts all other clients out until the fence is set back by hand. Let only those
// call who may hold the lock. Authenticate before Handler: it raises what it
// remembers when it sees a token, so a handler behind it that rejects a stranger
// rejects it too late, and the true holder gets 412 until the process restarts.
//
// # Answers
//
//	428 Precondition Required   no token, or one that cannot be read
//	409 Conflict                the token of another lock
//	412 Precondition Failed     a stale token; Fencing-Token names the newer mark, if known
//
// Refuse writes them for the errors of a guard, and Error turns them into those
// errors again at the other end. A request that got no answer has an unknown
// outcome, as always; the same token may try again.
//
// # Requests that are sent again
//
// A request that is sent again without the caller's knowledge can be refused although
// the first one was admitted: its answer got lost, and a newer holder entered in
// between. Transport keeps net/http from resending a request with an
// Idempotency-Key; the service still gets the key. net/http does resend GET, HEAD,
// OPTIONS and TRACE: use them to enter and to read, not to write. Configure proxies
// on the way not to resend writes (proxy_next_upstream of nginx, retries of Envoy).
package httpfence
