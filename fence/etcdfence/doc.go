// SPDX-License-Identifier: Apache-2.0

// Package etcdfence guards keys in etcd by the token of a lock. The fence is a
// separate key, and one etcd transaction compares it, raises it and does the
// work:
//
//	if   the fence is not there, or its token is not above mine
//	then put the fence, and your operations
//	else get the fence: who was it?
//
// Entering and writing are then one round trip each, as reading and writing are
// without a guard:
//
//	guard, err := etcdfence.New(client, "fences/orders/42", "orders/42")
//	res, err := guard.Do(ctx, clientv3.OpGet("orders/42"))       // raises the fence, then reads
//	_, err = guard.Do(ctx, clientv3.OpPut("orders/42", "new"))   // errors.Is(err, fence.ErrStale): too late
//
// The lock may be in another cluster or on another kind of server: the guard
// needs only its token.
//
// # Failure cases
//
//   - Refused: fence.ErrStale. None of your operations was done.
//   - More than MaxOps operations, or a key that is written twice: etcd does not
//     take the transaction, nothing was done, and the error says so.
//   - A lost reply, or a timeout: the outcome is unknown. Enter again with the
//     same token and look.
//   - A cluster restored from a snapshot has the fence and the data of that
//     moment, together.
//   - The fence stays when the data is deleted. Delete both in one transaction,
//     and only if no holder from before can be alive; otherwise leave it.
package etcdfence
