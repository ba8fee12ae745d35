// SPDX-License-Identifier: Apache-2.0

// Package filefence guards files. A file system cannot compare a token when it
// writes, so no process writes to what others read: each holder writes its own
// version, in a folder named by its token, and then a pointer is switched to it
// by a conditional write that can compare.
//
//	reports/
//	    512-NX4QZ2TB/   written by the holder of token 512
//	    768-5HWDK7PA/   written by the holder of token 768
//	pointer ──▶ 768-5HWDK7PA, fence 768      512 comes late: refused, its folder is removed
//
// Where the pointer lives is up to you, see Pointer: a row behind
// sqlfence, a key behind redisfence or etcdfence, or, for processes of one host,
// a file behind Local. Only the switch is guarded, so the rest may be slow.
//
// # Failure cases
//
//   - Refused: fence.ErrStale. The version is removed and the pointer is as it
//     was.
//   - The reply of the pointer gets lost: the outcome is unknown, and the
//     version stays, because the pointer may lead there.
//   - A holder dies while it writes: its version stays behind and nothing leads
//     there. Versions are never removed by this package; remove those with a
//     token below the current one's when no process reads them any more.
//   - Readers that follow the pointer see one version or another, whole.
package filefence
