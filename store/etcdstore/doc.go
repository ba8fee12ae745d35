// SPDX-License-Identifier: Apache-2.0

// Package etcdstore keeps locks in etcd, version 3.4 or later: one server or a
// cluster.
//
// With your own client, which the store never closes:
//
//	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"localhost:2379"}})
//	store, err := etcdstore.New(client, nil)
//	locks, err := fencelock.New(store, nil)
//
// With a URL; the store then owns its client:
//
//	store, err := etcdstore.Open(ctx, "etcd://one:2379,two:2379,three:2379/orders", nil)
//	defer store.Close()
//
// # Guarantees
//
// An acknowledged grant is in the log of a majority, so it survives what etcd
// survives. The token comes from the revision at which the grant was written, which
// is the same for all members and only rises. A cluster that was restored from a
// snapshot must have its revision raised (etcdutl snapshot restore --bump-revision);
// a process that saw a higher one refuses to go on. docs/etcd.md of the repository
// has the details and the server settings that matter.
//
// # How it is built
//
//	session a ── lease ─┬─ session|a
//	                    ├─ lock|orders/42|held|a.0   granted at revision 812
//	session b ── lease ─┬─ session|b
//	                    ├─ lock|orders/42|queue|b.0   queued since revision 815
//	                    └─ wake|b  ◀── watched by b, for all its claims
//
// Every session is one lease, and every claim a key on it: when the lease ends, etcd
// removes them all. A grant and a queued claim are different keys, so that the holder
// is written down and does not depend on who reads. To give the lock back is
// one transaction, which deletes one grant, writes the next and pushes it:
//
//	If    my grant is as I know it, b's claim is as I know it,
//	      no other claim was granted since
//	Then  delete lock|orders/42|held|a.0
//	      delete lock|orders/42|queue|b.0
//	      put    lock|orders/42|held|b.0, wake|b
//	Else  read the lock
//
// etcd compares and writes but does not decide. So the decision is made here, by pure
// functions, on what was read or is guessed, and the transaction compares all that the
// decision rests on. If another was faster it answers with what is true now, and the
// decision is made again. A guess that is right costs one round trip: a free lock is taken,
// and given back, with one each. With a grant from the queue comes a list of those behind
// it, so that a contended lock, too, is handed on with one transaction, without a read.
//
// # Failure cases
//
//   - A reply is lost: the same claim comes again and finds its key, or is withdrawn
//     and tombstoned under gone|, which every grant compares.
//   - The process dies: its lease ends, its keys go, and no push is written. A claim
//     that has waited for a while watches the grant in front, or its predecessor in the
//     queue, and grants to the first in the queue. Elections make leases last longer, never shorter.
//   - A push is lost, or its watch: the claim polls after the holder's TTL.
//   - A push overtakes the answer to the attempt: the claim is known before it is sent.
//   - Two holders release at the same time: each compares what keeps the next claim
//     out, so the second sees that it is the last.
//   - A deposed leader still answers keep-alives from its memory. A renewal counts
//     only when a quorum has confirmed the leader's term after it.
//   - A leader before 3.4.31 and 3.5.13 that stood still for longer than a TTL ends, when
//     it goes on, leases that the next leader has renewed (etcd issue 15247). The lock is
//     then granted while its holder still trusts it, until its next renewal. Tokens
//     stay in order. No client can prevent it; Check warns (revoke).
//   - The client's own keep-alive is not used: it counts from the reply, and checks
//     its deadlines once a second. The core counts from the send.
//   - The cluster is restored under another id: every session answers ErrReset
//     until it is opened again, and what it then does not ask for is dropped.
//
// # Time
//
// etcd has no clock that a transaction can read. Sessions end by leases, in whole
// seconds and up to a second late; so do MinHold, MaxHold and KeepFor, each by a key
// on a separate lease, and never earlier than requested. The ages that Inspect
// shows are by the clocks of the processes that wrote them, and for people only.
//
// # URLs
//
// [Open] takes:
//
//	etcd://[user:password@]host[:port][,host[:port]...][/namespace][?parameters]
//
// With etcds everything goes over TLS. The port is 2379 if none is given. Name all
// members: a client goes on with another one when one is down. User and password are
// escaped with % as everywhere in URLs. A setting that is in opts, too, must have the same
// value there. The parameters:
//
//	namespace          Options.Namespace, instead of the path
//	max_ttl            Options.MaxTTL, as 30s
//	dial_timeout       how long connecting may take, 5s
//	tls_ca             file with the certificates to trust, instead of the system's
//	tls_cert, tls_key  files of the client's certificate
//	tls_server_name    name to expect in the servers' certificates, instead of the host
//
// A URL with a password does not belong in a command line, where every user of the
// machine can read it: take it from the environment or a file.
package etcdstore
