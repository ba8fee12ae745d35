// SPDX-License-Identifier: Apache-2.0

// Package curatorstore shares locks with programs that use Apache Curator: a fencelock.Mutex and an
// InterProcessMutex at the same path are one lock.
//
//	store, err := curatorstore.Open(ctx, "curator://zk1:2181,zk2:2181,zk3:2181/locks", nil)
//	defer store.Close()
//	locks, err := fencelock.New(store, nil)
//	lease, err := locks.Mutex("orders/42").Lock(ctx)
//	// excludes new InterProcessMutex(client, "/locks/orders/42")
//
// LeaderSelector has the same format, and so have zk.Lock of go-zookeeper and, with an option, Lock
// of kazoo. InterProcessReadWriteLock and LeaderLatch are other formats: see Options.Recipe. Use the
// package while others take the same locks; docs/sharing.md has the limits. When only Go services
// are left, move to package zkstore, whose tokens continue those of this package.
//
// # How it is built
//
//	/locks/orders/42                                      the path that Java was given, a container
//	  _c_f290140d-9856-42ad-b9bf-348ffc086062-lock-0000000006       Java, holds
//	  _c_5a1f…-7-lock-0000000007      Go: session 5a1f…, claim 7;   waits for 6, watches 6 only
//	  _c_906be06188c4ff512b18acf0e340eef4-lock-0000000008           Java, waits for 7, watches 7
//	/fencelock/s/<session>                                a Go process: tombstones and broken claims
//
// Every child of a lock is a contender, and the lowest number holds. The others read the word before
// the number and the number, so session and claim stand before the word: a claim whose reply was lost
// is found again by them, as Curator finds its own by the id. Sessions are those of zkstore, and a
// claim is created together with a check of its session. Nothing else is written: not to the lock's
// node, which may have data of the application.
//
// # Tokens
//
// The token of a claim is the czxid of its node times 512, as in zkstore. Numbers and czxids below one
// node rise together, so tokens rise in the order of grants, those of other programs included. Java
// computes its own:
//
//	long token = client.checkExists().forPath(node).getCzxid() * 512;
//
// A service that writes without its token cannot be fenced. That is why Require: Correctness is
// refused unless Options.FencedPeers states that all of them do.
//
// # Failure cases
//
//   - A Go holder is notified before the ensemble ends its session. A Java holder that ignores
//     SUSPENDED and LOST works on; its writes need the token.
//   - Another program deletes a Go holder's node: the next one holds at once. The Go holder is
//     notified with its next heartbeat, a third of the TTL later, or by Unlock.
//   - The reply to a creation is lost: the node is found by session and claim and used, or removed.
//   - The ensemble removes the empty container between two claims: it is created again. Numbers
//     begin at 0 then, tokens go on.
//   - A child that fits no recipe, or another one: the store returns an error that names it. Curator
//     sorts such a child as text, and may take it for the holder.
//   - ZooKeeper's counter comes to an end after 2,146,435,072 claims at one path: the store refuses
//     new ones. Curator goes on, and two may hold.
package curatorstore
