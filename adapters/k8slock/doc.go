// SPDX-License-Identifier: Apache-2.0

// Package k8slock elects the leader of a Kubernetes operator on any store: it is a
// resourcelock.Interface of client-go, for a LeaderElector and for the manager of
// controller-runtime. Operators of several clusters, and those without access to leases of
// an API server, elect one leader with it.
//
// First consider [fencelock.Client.Election]: it waits in a queue instead of polling, and it
// gives the lock back when the work has returned. This package is for programs in which
// client-go or controller-runtime runs the election.
//
//	lock, ctx, err := k8slock.New[resourcelock.LeaderElectionRecord](ctx, client, "operators/orders", nil)
//	…
//	defer lock.Close(context.Background())
//	mgr, err := manager.New(config, manager.Options{LeaderElection: true, LeaderElectionResourceLockInterface: lock})
//	…
//	err = mgr.Start(ctx) // the context of New: it ends when the lock is lost
//
// client-go has a record that each candidate overwrites when it looks expired. Here the lease
// of fencelock is the truth, and the record is made from it:
//
//	elector                  Lock                         store
//	Get        ────────────▶ Inspect      ──────────────▶ who holds the lock?
//	Update     ────────────▶ TryLock      ──────────────▶ first time: acquire it
//	Update     ────────────▶ is the lease still held?     later: no I/O, the client renews it
//	Update("") ────────────▶ Unlock       ──────────────▶ ReleaseOnCancel
//
// A Lock is for one term of one elector. After a loss, and after the elector stopped, it
// acquires nothing again: an elector that lost its lease and acquired another one would lead
// on without a call of OnStoppedLeading, and another process may have led in between. To
// campaign again, use a new Lock.
//
// # Failures
//
//   - The process of the leader dies: another candidate leads after the client's TTL and its
//     own RetryPeriod. LeaseDuration has no part in it.
//   - The lease is lost (the store did not answer for a TTL, an operator broke it): the
//     context of New ends, and with it the elector and the work, before another candidate can
//     acquire the lock. An elector under another context would go on for its RenewDeadline.
//     After [fencelock.Client.ForceUnlock] the leader is notified at its next renewal only.
//   - The process is paused for longer than the TTL: another candidate leads, and the paused
//     one is notified when it goes on. What it writes in that moment is stopped by the token of
//     [Lock.Lease] alone.
//   - The elector ends without ReleaseOnCancel: the lock stays taken for LeaseDuration, as
//     with client-go's own lock, or until Close.
//   - With ReleaseOnCancel, client-go gives the lock back before it calls OnStoppedLeading.
//     End the work before you cancel the context, as controller-runtime does.
//   - Two processes have the same identity: one of them leads. With client-go's own lock both
//     would.
//
// client-go is not imported, so each of its versions fits: the type parameter is its type
// resourcelock.LeaderElectionRecord, which is read and written as JSON.
package k8slock
