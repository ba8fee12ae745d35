// SPDX-License-Identifier: Apache-2.0

package drivertest

// Clause is one numbered sentence of docs/spec.md.
type Clause struct {
	// ID is a letter for the group and a number: "S3".
	ID string
	// Rule is the sentence, word for word.
	Rule string
}

// Clauses returns the store clauses in the order of docs/spec.md.
func Clauses() []Clause {
	return append([]Clause(nil), clauses...)
}

var clauses = []Clause{
	{"S1", "Open is idempotent per session id: opening it again resumes the session with its claims."},
	{"S2", "One KeepAlive within the TTL keeps every claim of the session."},
	{"S3", "A session that is not kept alive ends when its TTL has passed, not before, and its grants are free then."},
	{"S4", "An ended session answers ErrGone to KeepAlive and Attempt and is not revived by them."},
	{"S5", "Close ends the session: its grants are free and its claims leave the queue."},
	{"S6", "Open and KeepAlive answer with a positive TTL within the bounds of Caps."},
	{"S7", "Open refuses a TTL outside the bounds of Caps with ErrRefused."},
	{"S8", "A clock reported by Renewal advances by what has elapsed between two calls."},
	{"S9", "Open resumes a session with its last value in Before, also if the answer to an Open in between was lost. A late call on the value of before leaves nothing that a call on the next one cannot find or withdraw."},
	{"O1", "While an exclusive claim is granted, no other claim is granted."},
	{"O2", "Attempt is idempotent per claim: a granted claim gets the same token again, a queued one keeps its position."},
	{"O3", "Withdraw removes exactly its claim: another session's or another number's claim stays."},
	{"O4", "Withdraw is idempotent and returns what it found."},
	{"O5", "Claims with the same Reentry share one grant and its token; the lock is free when the last of them is gone."},
	{"O6", "An exclusive grant attempted again with shared terms becomes shared in place, with the same token."},
	{"O7", "Names are exact: no name affects another by prefix, case, length or separator."},
	{"T1", "Tokens of one name strictly rise in the order of grants."},
	{"T2", "Every grant has its own token, even a shared one."},
	{"T3", "A token is a positive multiple of TokenStep."},
	{"T4", "Break returns a token above every earlier one and below every later one of the name."},
	{"T5", "Tokens keep rising over a data loss."},
	{"T6", "An attempt with a Floor gets no token below the Floor, and no later token of the name is below it, whatever the answer to the attempt was."},
	{"T7", "With Lift a claim that was granted with a token below the Floor gets a new token, as a new grant would; without Lift a Floor changes no token."},
	{"T8", "An attempt with a Floor that is not granted returns a token at least as high as every token of the name so far."},
	{"Q1", "Claims are granted in the order in which they were queued."},
	{"Q2", "A withdrawn claim leaves the queue and the others keep their order."},
	{"Q3", "A claim whose session has ended is skipped."},
	{"Q4", "An attempt without Queue neither enters the queue nor overtakes it."},
	{"Q5", "Withdraw grants to the next in the queue inside the store."},
	{"Q6", "Shared claims at the front are granted together, and a later shared claim does not overtake a waiting exclusive one."},
	{"W1", "With Push, Await returns Granted soon after the grant."},
	{"W2", "Await returns the context's error when the context ends."},
	{"W3", "A grant that happened before Await was called is not missed."},
	{"W4", "PollAfter of the first claim in the queue ends when the holder must have ended."},
	{"W5", "Without Push, Await returns at once with a PollAfter."},
	{"W6", "With Contended at once, a session is notified soon after a claim was queued behind a granted claim with Watch."},
	{"W7", "With Contended at once, a session is notified even if the other claim was queued before the grant, before the grant was watched or before it was reclaimed."},
	{"W8", "With Contended at the next renewal, KeepAlive notifies the session of every granted claim with Watch behind which a claim is queued."},
	{"W9", "A granted claim attempted again with Watch keeps its token, and a session is not notified of a grant that no claim has waited for."},
	{"W10", "With Linger, Inspect and the answer to a claim that is not granted show the Linger of the holder's terms."},
	{"L1", "Shared claims are granted together and keep an exclusive one out."},
	{"L2", "The weight granted together stays within the limit."},
	{"L3", "A stored limit replaces the claims' own; raising it grants to queued claims, lowering it takes nothing away."},
	{"L4", "Withdrawing a claim twice gives its weight back once."},
	{"L5", "A heavy claim at the front is not overtaken by lighter ones behind it."},
	{"L6", "A claim heavier than a stored limit takes all of it."},
	{"H1", "MaxHold ends a grant even while its session is kept alive, and Remaining is the time that is left."},
	{"H2", "MinHold keeps the lock taken after a withdrawal."},
	{"H3", "MinHold keeps the lock taken after the session's end."},
	{"H4", "KeepFor leaves the lock taken and shown as kept, with the token of the grant, then frees it."},
	{"X1", "A call whose context has ended returns an error that wraps the context's error, and whatever it left in the store, the same claim can find or withdraw."},
	{"X2", "A claim attempted on a resumed session finds what the first attempt did."},
	{"X3", "A withdrawal with Tombstone makes the store refuse a later attempt or reclaim of that claim, even after a failover that kept the data."},
	{"X4", "Every call returns soon after its context ends, even when the server does not answer."},
	{"R1", "After a data loss every call of an earlier session answers ErrReset until it is opened again, but for a Withdraw that removes a grant that survived."},
	{"R2", "During grace nothing new is granted, and the answer reports the grace period and how long it lasts."},
	{"R3", "Reclaim during grace puts a grant back with its token."},
	{"R4", "Reclaim never puts a grant back beside or after a newer one."},
	{"R5", "A grant that survived the loss is confirmed by Reclaim, with or without grace. If it is reclaimed with shared terms, it is shared from then on."},
	{"R6", "The last Reclaim drops every earlier grant of the session that was neither reclaimed nor attempted since it was opened again."},
	{"R7", "A claim that was queued before the loss stays in the queue only if it is attempted again; otherwise the last Reclaim of its session removes it."},
	{"R8", "After a data loss Close either ends what survived of the session, or answers ErrReset; called again after the session was opened again, it ends the session."},
	{"I1", "Inspect shows every holder with token, record, age and end, or at least 1,000 of them and how many more there are, and the queue in order."},
	{"I2", "A free lock that no claim waits for is not listed and has neither holders nor waiters."},
	{"I3", "List shows every held lock exactly once over its pages, and only those with the prefix."},
	{"I4", "Break ends the grant with that token only, grants to the next, and reports the claim in Renewal.Broken of its session until a withdrawal. The withdrawal finds it broken, however often it is sent. Both hold even after a failover that kept the data."},
}
