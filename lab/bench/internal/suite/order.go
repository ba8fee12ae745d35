// SPDX-License-Identifier: Apache-2.0

package suite

import "math/rand/v2"

// orderSeed makes the orders the same in every run of the program: two runs differ in
// what they measure, not in how.
const orderSeed = 1

// orders returns the order of n in each repetition. They are shuffled, and again until
// no candidate directly follows the one it followed in the repetition before: what one leaves
// behind, a warm cache or a busy server, is then not always the share of the same.
// Letting each repetition begin one further, as one would first think of, keeps all
// neighbors but one. The loop ends: the reverse of an order will always do.
func orders(n, repetitions int) [][]int {
	rng := rand.New(rand.NewPCG(orderSeed, uint64(n)))
	all := make([][]int, 0, repetitions)
	before := make(map[int]int, n) // whom each followed
	for len(all) < repetitions {
		order := rng.Perm(n)
		follows := make(map[int]int, n)
		kept := false
		for i := 1; i < n; i++ {
			follows[order[i]] = order[i-1]
			whom, ok := before[order[i]]
			kept = kept || ok && whom == order[i-1]
		}
		if !kept {
			all, before = append(all, order), follows
		}
	}
	return all
}
