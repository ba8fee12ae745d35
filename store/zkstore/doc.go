// SPDX-License-Identifier: Apache-2.0

// Package zkstore keeps locks in Apache ZooKeeper, version 3.5 or later.
//
//	store, err := zkstore.Open(ctx, "zk://zk1:2181,zk2:2181,zk3:2181/fencelock", nil)
//	defer store.Close()
//	locks, err := fencelock.New(store, &fencelock.Options{Require: fencelock.Correctness})
//
// # Guarantees
//
// An acknowledged grant survives what the ensemble survives: the loss of any minority of
// its servers, and a restart of all of them. Every lease has a fencing token that rises per
// name. Waiters are served in order and notified. Readers, weights, stored limits and
// re-entry work. MinHold, MaxHold and Once, which is built on them, do not: ZooKeeper does
// not report its time.
//
// # How it is built
//
//	process ── connection = session of ZooKeeper
//	                  │ ephemeral
//	                  ├─▶ /fencelock/s/<session>             who is alive, what is tombstoned or broken
//	                  └─▶ /fencelock/l/<bucket>/<name>/<claim>_0000000007
//	                                                        ▲ _0000000006, the claim before
//	                                                        └ watched by the one behind it
//
// A claim is an ephemeral sequential node under its lock. Its name has what it asks for, so
// the children of a lock are enough to decide who holds it, and every process decides the
// same. Grants are not pushed; a waiter watches the node before it and reads the lock when
// that goes. When a session ends, ZooKeeper removes its claims in one transaction.
//
// A claim is created in one transaction with a check of its session's node. That
// refuses claims of a session that was closed, and claims that were tombstoned or broken,
// whenever they arrive. Because a claim's number is in its name, an attempt whose answer
// was lost is found again: if it is made twice, the first node counts and the other one
// is removed.
//
// # Tokens
//
// The token of a claim is the number of the transaction that created its node, its
// czxid, times 512. The sequence number in the node's name only orders the queue: it has
// 32 bits, and starts again when the lock's node is created again. A czxid has 64 bits, the upper 32
// of which count leaders, so the product fits a signed 64-bit number until an ensemble
// has had four million leaders. Then Attempt returns an error. 512 and not 256, because
// the fence of a Break must fit between two claims that follow each other.
//
// # Time
//
// A session is kept alive by a transaction, which only a majority can answer. The pings
// of the client library are not sent: a server that the others have lost goes on
// answering them, while the rest of the ensemble ends the session.
//
//	heartbeat before the last    the last              trusted until
//	          ├───── TTL/3 ────────┼─────────── TTL ─────────┤
//	          └───────────── timeout of the session ─────────┴─▶ the leader ends it
//
// The leader hears of the sessions of a follower only by and by. If a follower is lost
// right after it has answered a heartbeat, the leader counts from the one before. So the
// timeout asked for is a third longer than the TTL, and the TTL reported to the core is
// what is left of it from the heartbeat before. After a heartbeat that came late it is
// shorter, below MinTTL if need be, until the next. The price is that the locks of a
// process that died are free a third of the TTL later. If the core does not keep a session
// alive, the store ends it when its TTL has passed.
//
// What this rests on: while a follower is served by the leader, a ping reaches it at
// least once a tick, twice as rarely as it is sent; and a tick is Options.TickTime.
//
// # Failure cases
//
//   - The leader dies: requests wait for the new one. It gives every session a full
//     timeout again, so leases outlive an election that is shorter than their TTL.
//   - The server of a connection stands still: it is given up after a third of the
//     TTL, and the session goes on at another server.
//   - A minority is cut off, with processes on its side: they cannot keep their sessions
//     alive. Each holder is notified before the majority ends its session, even if the last
//     heartbeat was answered a moment before and the majority never heard of it.
//   - A read from a server that lags shows what is over, never hides what is there: a claim
//     sees every claim before it. Where it must not see what is over, a transaction comes
//     before the read; ZooKeeper's sync is not enough on the leader.
//   - A process opens the session of another one, which the core never does: its claims
//     hang on its own connection, and it ends when the session of the first one does.
//   - The ensemble is rebuilt without its data: transactions are counted from one
//     again, and tokens with them. docs/zookeeper.md describes what to do.
//
// # URLs
//
// [Open] takes:
//
//	zk://[user:password@]host[:port][,host[:port]...][/namespace][?parameters]
//	zks://...
//
// zks is TLS, to the secureClientPort of the servers. The port is 2181 if none is given, with
// zks 2281. The path is Options.Namespace, user and password are
// Options.Auth. A setting that is in opts, too, must have the same value there. The
// parameters:
//
//	namespace          Options.Namespace, instead of the path
//	tick_time          Options.TickTime, as 2s
//	min_ttl, max_ttl   Options.MinTTL and MaxTTL
//	tls_ca, tls_cert,  files in PEM form: who signs the servers' certificates, and the
//	tls_key            certificate and key of the client
//	tls_server_name    the name in the servers' certificates, if it is not the host
package zkstore
