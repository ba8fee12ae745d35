// SPDX-License-Identifier: Apache-2.0

// Package redlock keeps each lock on several independent servers, and a lock is held if a
// majority of them has it: the algorithm of redsync and other Redlock libraries, with strings that
// these share.
//
//	Attempt ─┬─▶ server a   SET orders/42 ID:65536 NX PX   granted ┐
//	         ├─▶ server b   SET orders/42 ID:65536 NX PX   granted ┴▶ 2 of 3: granted
//	         └─▶ server c   (down)
//
// Every server has a session of package foreign with the same id, so that a claim has the same
// value on all of them. A store with tokens would be package quorum; this format has none.
//
// # Rules
//
//   - A claim is granted when a majority granted it. Otherwise it is withdrawn from those that did,
//     and the next attempt has another value if one of the attempts may still arrive.
//   - The TTL that counts is shorter than that of the keys, by the drift of clocks that redsync
//     assumes: a hundredth.
//   - A renewal succeeds when a majority was renewed, and for each claim a majority that has it. A
//     server that was down or lost its data is given the claims again, if a majority had them without
//     a gap; a claim that lost its majority is broken until it is withdrawn.
//   - A session that is opened again is the same one, with its claims and their numbers.
//
// # Race conditions
//
//   - Two processes get a minority each: both withdraw, and try again at different times.
//   - An attempt arrives on a server after its claim was withdrawn: it was never granted by a
//     majority, and the server's next renewal finds and frees it (foreign.Drop).
//   - A server restarts without its data: claims are put on it again while the others have them.
//     Until then another process may get a majority with it, as in every Redlock: start a server that
//     lost its data only after the longest TTL.
package redlock
