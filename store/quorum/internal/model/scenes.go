// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/fencelock/fencelock/internal/explore"

// Scenes are the worlds that are searched. Each is as small as the rules it shows
// to be needed allow.
var Scenes = []Scene{
	{Name: "tokens", Nodes: 3, Counters: 2, Vanish: true, Shows: []int{1}},
	{Name: "repeated attempts", Nodes: 3, Counters: 1, Vanish: true, Dup: true, Shows: []int{2}},
	{Name: "release", Nodes: 3, Counters: 0, Release: true, Shows: []int{3, 4}},
	{Name: "loss", Nodes: 3, Counters: 1, Losses: 2, Timed: true, Shows: []int{5, 6}},
	{Name: "reclaim", Nodes: 3, Counters: 0, Losses: 2, Timed: true, Reclaim: true, Shows: []int{11, 12, 13, 16}},
	{Name: "reclaim, release", Nodes: 3, Attempts: 1, Counters: 0, Losses: 2, Release: true, Reclaim: true, Shows: []int{14, 15}},
	{Name: "two lists", Nodes: 4, Counters: 1, Vanish: true, Lists: [][]int{{0, 1, 2}, {1, 2, 3}}, Shows: []int{7}},
	{Name: "renewal", Nodes: 3, Counters: 1, Vanish: true, Renew: true, Bound: true, Shows: []int{8, 9, 10}},
}

// Limit is how many states a search sees at most before it gives up: with all
// rules on every scene is seen whole below it.
const Limit = 30_000_000

// Finding is the outcome of one search: of a scene with all rules, or with all but the one of that number.
type Finding = explore.Finding[int]

// Check searches scenes with all rules, at most limit states, and without each of
// the rules they show, and calls report with each outcome.
func Check(scenes []Scene, limit int, report func(Finding)) {
	for _, s := range scenes {
		report(Finding{Result: Search(s, All(), limit), Scene: s.Name})
		for _, off := range s.Shows {
			report(Finding{Result: Search(s, All(off), Limit), Scene: s.Name, Off: off})
		}
	}
}
