// SPDX-License-Identifier: Apache-2.0

// Package redisfence guards data in Redis or Valkey by the token of a lock. The
// fence is a hash in the slot of the data, and a Lua script checks it, raises it
// and does the work, in one step of the server:
//
//	{orders:42}:fence   token 768, holder ann@host:7
//	orders:42           what it guards
//
//	EVALSHA guard  ─▶  token < 768?  yes: refused, nothing done
//	                                 no:  fence = token, then your script
//
// Entering and writing are then one round trip each, as reading and writing are
// without a guard. The first run of a script costs one more, because the server
// must get its text, and so does the first after a restart or a failover:
//
//	var get = redisfence.NewScript(`return redis.call('GET', KEYS[1])`)
//	var set = redisfence.NewScript(`return redis.call('SET', KEYS[1], ARGV[1])`)
//
//	guard, err := redisfence.New(client, "orders:42", "orders/42")
//	old, err := guard.Run(ctx, get, []string{"orders:42"})      // raises the fence, then reads
//	_, err = guard.Run(ctx, set, []string{"orders:42"}, "new")  // errors.Is(err, fence.ErrStale): too late
//
// The lock may live elsewhere: the guard needs its token only.
//
// # Failure cases
//
//   - Refused: fence.ErrStale. Your script was not run.
//   - A lost reply: the outcome is unknown. The guard does not let go-redis send
//     the script again, whatever MaxRetries says: a newer holder may have come
//     in between, and a script that ran would be reported as refused. Enter
//     again with the same token and look. A script that you run again may run
//     twice: let it set values, not add to them.
//   - A script that fails half-way leaves what it did, as always in Redis.
//   - A failover that loses writes loses those of the fence and of the data
//     together, because they are in one slot: a write that was acknowledged to an
//     admitted holder may be gone, but the fence is never older than the data.
//   - A server that evicts keys (maxmemory-policy allkeys-*) may evict the fence
//     and keep the data, and then every token is admitted. Use noeviction, or a
//     volatile-* policy: the fence never has a time to live. For the same reason
//     do not let the fence expire.
//   - The fence stays when the data is deleted. Delete both in one script, and
//     only if no holder from before can be alive; otherwise leave it.
package redisfence
