// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"crypto/sha256"
	"encoding/binary"
)

// digest is a number for a name. SHA-256 because it is the same in every language
// and no client can make names that all end up on one member without some work; the
// hashes of the standard library that are faster are seeded per process, or mix
// too little.
func digest(name string) uint64 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint64(sum[:8])
}

// score is how much a member, by its digest, wants a name. It is part of the
// layout: another score would move names between servers under live locks.
// TestScoreIsPinned has its values.
func score(member, name uint64) uint64 { return mix(member ^ name) }

// mix is the finaliser of MurmurHash3 with 64 bits: each bit of the input changes
// about half of the output, so that the order of the scores of two members is as
// good as random for every name.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return x
}
