// SPDX-License-Identifier: Apache-2.0

// Package concurrencystore keeps locks in the layout of etcd's package concurrency, so that a Go service with fencelock
// takes the very same lock as services with concurrency.Mutex or concurrency.Election, as etcdctl lock and elect, and
// as clients of etcd's lock service, jetcd's Lock for one.
//
//	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"localhost:2379"}})
//	store, err := concurrencystore.New(client, &concurrencystore.Options{Prefix: "/locks/"})
//	locks, err := fencelock.New(store, nil) // Mutex("a") is concurrency.NewMutex(session, "/locks/a")
//
// # Layout
//
//	/locks/a/694d8f2c1b3a4e07      created at revision 812, on lease 694d8f2c1b3a4e07: holds the lock
//	/locks/a/1f02aa5b33c9d010      created at revision 815: waits for the key before it
//	/locks/a/1f02aa5b33c9d010.1    a second claim of the same session
//
// A claim is a key under the name of the lock, and the key with the lowest create revision holds it. A waiter watches the key before
// its own. When a holder dies, its lease ends, and its key with it. The others compare nothing but the revisions,
// so the value is free: it has the record of the holder.
//
// Sessions, their leases and heartbeats are those of etcdstore; a session key, the tombstones and the marks of broken claims
// are in Options.Namespace, beside the locks. There is the handle of a session, too, which is written when the session
// is opened: every write of a claim compares it, so that an attempt which is under way from before adds no second key.
//
// A client reads the first key of a lock, its own and a few before its own, however many wait. If the first key is of a lock whose
// name continues this one, the client reads all keys, without their values, in one call.
//
// # Tokens
//
// A token is the create revision of the key times 16384. A holder with another library computes the same from
// the create_revision of the key that it has; Mutex.Header().Revision is another number, and may be equal for two holders.
// A holder that writes without a token cannot be fenced, so Require: Correctness is refused unless Options.FencedPeers states that
// all programs check tokens.
//
// # Failure cases
//
//   - A reply is lost: the same claim finds its key again, or is withdrawn and tombstoned.
//   - Another program deletes the key: the lock passes on at once, and the holder is notified at its next renewal, or by
//     its Unlock.
//   - An operator breaks the lock of another library: the lock passes on, and that holder does not learn of it. Its
//     format has nothing for that.
//   - A holder with package concurrency trusts its session longer than etcd does: the client counts from the reply to its
//     keep-alive, and notices the end with up to a second of delay.
//   - The lock jobs, in another library, waits for keys of the lock jobs/42. This store does not.
//   - A cluster is restored under another id, or to a lower revision: as in etcdstore.
//
// # What it cannot do
//
// Shared claims, limits, re-entry, holds, listing and notices of waiters are not in the format; Caps reports it.
package concurrencystore
