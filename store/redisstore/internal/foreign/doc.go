// SPDX-License-Identifier: Apache-2.0

// Package foreign keeps locks in the format of Redisson: a lock is a hash under the name of
// the lock, with a field for its holder. It links no client library.
//
// # Sessions
//
// In Redisson's format the lease is the time to live of the lock's own key, so every lock is
// renewed. What fencelock calls a session is further keys beside the locks:
//
//	fencelock_session:<id>              hash   TTL, claims that were broken
//	fencelock_session:<id>:claims       zset   granted claims, with the key of their lock
//	fencelock_session:<id>:tombstones   zset   claims that must not be granted any more
//	fencelock_session:<id>:records      hash   records of claims whose lock has no place for them
//
// One script renews up to 250 locks of a session, and several are under way at once. On a cluster a
// script reaches one slot: each slot is a shard with a session, whose keys have a hash tag of that slot.
//
// # Holders
//
// Redisson compares holder ids and never reads a foreign one. Ours are the id of the session
// in the form of a UUID and the number of the claim: never used again, so a hold count is
// always 1, and an acquisition that is sent twice finds itself.
//
// # Readers
//
// Of an RReadWriteLock every field of the hash counts, so nothing is added to it. Each reader has
// a key with its lease beside the hash; a reader that leaves drops the hash unless the key of
// another is alive. Redisson decides the same, so a Go reader without its key would be dropped
// by Java: renewals write that key again.
//
// # Race conditions
//
//   - The reply to an acquisition is lost. The field is there; the same claim finds it.
//   - An acquisition arrives after its claim was withdrawn: the tombstone rejects it.
//   - A release arrives late: it compares the field, and does nothing to the next holder.
//   - A Java process forces the lock open, or its key is deleted. The next renewal finds the
//     field gone and reports the claim as broken, before or after another process has the lock.
//   - A message is lost, doubled or late: it is only a hint to try again. Each wait begins with
//     an attempt after the subscription was confirmed, and ends with the time to live.
//   - The server loses some keys and keeps the session: each renewal is compared with the claims
//     that the process knows (see claims). A grant that is missing is reported as broken, and a
//     claim that was withdrawn and is back is freed.
//   - A renewal of many locks ends half way. The session's own keys were extended first, the
//     core trusts none of the leases for longer, and repeats the renewal.
package foreign
