// SPDX-License-Identifier: Apache-2.0

// Package s3fence guards objects in S3 by the token of a lock. A service of the S3 protocol
// cannot compare a token when it writes, but it can write on the condition that an object
// is as it was. So each holder writes an object of its own, named by its token, and then a
// small object, the pointer, is switched to it by a conditional write. The fence is in the pointer:
//
//	reports/512-NX4QZ2TB…   written by the holder of token 512
//	reports/768-5HWDK7PA…   written by the holder of token 768
//	reports/current         {"name": "768-5HWDK7PA…", "fence": token 768}     512 comes late: refused
//
//	guard, err := s3fence.New(client, "my-bucket", "reports", "reports") // bucket, prefix, lock
//	key, err := guard.Enter(ctx)                                         // raises the fence; the current object, or ""
//	err = guard.Put(ctx, &s3.PutObjectInput{Body: body})                 // errors.Is(err, fence.ErrStale): too late
//
// Readers follow Guard.Current and need no token. Objects are never changed, so a reader
// has one version or another, whole.
//
// # Why the fence is not in the metadata of the object
//
// If-Match compares the ETag, and the ETag of most objects is the MD5 of the body alone. A
// fence that was raised in the metadata does not change it, and the conditional write of an
// older holder still succeeds. The pointer has the fence in its body, with a random number
// that makes every ETag a new one. For the same reason a holder that enters again after a lost reply
// settles its outcome: what is still under way then fails.
//
// # Which services
//
// PutObject must obey If-Match and If-None-Match, in one step with the write. Guard.Check tries
// that and finds a service, or a proxy, that ignores them; it cannot show that they are one step.
//
//	Amazon S3                    If-None-Match since August 2024, If-Match since November 2024; not tried
//	Cloudflare R2, Scaleway,     in their documents; not tried
//	CoreWeave, Selectel
//	MinIO                        in its documents; until August 2025 it ignored If-Match where there was no object; not tried
//	Ceph                         had them before Amazon; not tried
//	versitygw                    1.8.0 on a local folder: proved here, and attacked with concurrent writes
//	Google Cloud Storage         no: for writes it has x-goog-if-generation-match instead
//
// # Failure cases
//
//   - Refused: fence.ErrStale. The pointer is as it was, and the new object is deleted again.
//   - The condition failed because another call came in between: the guard reads and tries again.
//   - A lost reply of the pointer: the outcome is unknown, and the new object stays. The SDK is kept
//     from sending the conditional write again: it would fail on its own first success. Enter again with the same token.
//   - A holder dies before the switch: its object stays, and nothing leads there. Guard.Clean deletes what
//     older tokens left. A reader whose object is gone asks Current again.
//   - The pointer is deleted: then every token is admitted. Keep lifecycle rules and people away from it. Guard.Delete
//     ends an object and leaves the fence.
//   - Replication to another bucket lags behind: enter and read in one bucket.
package s3fence
