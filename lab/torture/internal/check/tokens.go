// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"github.com/fencelock/fencelock/lab/torture/internal/history"
)

// Unique is D1: no two acquisitions of a lock have the same token. A lock
// without tokens, which are 0, has nothing to check.
func Unique(hs []*hold) []Violation {
	type key struct {
		lock  string
		token int64
	}
	var vs []Violation
	seen := map[key]*hold{}
	for _, h := range hs {
		if h.token == 0 {
			continue
		}
		k := key{h.lock, h.token}
		if first := seen[k]; first != nil {
			vs = append(vs, Violation{"D1", F, h.grant, fmt.Sprintf("%s: %s had that token before", h, first.who)})
			continue
		}
		seen[k] = h
	}
	return vs
}

// Rising is D2: an acquisition that was asked for after another had been granted
// has the greater token.
func Rising(hs []*hold) []Violation {
	var vs []Violation
	for lock, mine := range byLock(hs) {
		byAsk := slices.Clone(mine)
		slices.SortStableFunc(byAsk, func(a, b *hold) int { return int(a.ask - b.ask) })
		i, most := 0, (*hold)(nil)
		for _, h := range byAsk {
			for ; i < len(mine) && mine[i].grant < h.ask; i++ { // mine is in the order of grants
				if most == nil || mine[i].token > most.token {
					most = mine[i]
				}
			}
			if most != nil && most != h && h.token != 0 && h.token < most.token {
				property := F
				if h.relocked { // its client had not yet heard of a data loss: two hold it, and D4 says whether the resource noticed (K16)
					property = T
				}
				vs = append(vs, Violation{"D2", property, h.grant, fmt.Sprintf(
					"%s asked after %s had been granted %s with token %d", h, most.who, lock, most.token)})
			}
		}
	}
	return vs
}

func byLock(hs []*hold) map[string][]*hold {
	m := map[string][]*hold{}
	for _, h := range hs {
		m[h.lock] = append(m[h.lock], h)
	}
	return m
}

// Admitted is D4: the tokens that the resource lets in never fall, and each
// belongs to one client.
func Admitted(events []history.Event) []Violation {
	var vs []Violation
	last := map[string]history.Event{}
	for _, e := range events {
		if e.Register != history.Fenced || (e.Kind != history.Enter && e.Kind != history.Admit) {
			continue
		}
		l, ok := last[e.Lock]
		switch {
		case ok && e.Token < l.Token:
			vs = append(vs, Violation{"D4", F, e.At, fmt.Sprintf(
				"the resource of %s let in token %d of %s after %d of %s", e.Lock, e.Token, e.Who, l.Token, l.Who)})
		case ok && e.Token == l.Token && e.Who != l.Who:
			vs = append(vs, Violation{"D4", F, e.At, fmt.Sprintf(
				"the resource of %s let in token %d of both %s and %s", e.Lock, e.Token, l.Who, e.Who)})
		}
		last[e.Lock] = e
	}
	return vs
}

// Kept is D5: every append that was acknowledged is in the final list, once, and
// every list that was written continues the one before. For the register
// without a guard it is the measure U.
func Kept(events []history.Event) []Violation {
	var vs []Violation
	type key struct{ register, lock string }
	list := map[key][]string{}
	final := map[key]map[string]int{}
	for _, e := range events {
		k := key{e.Register, e.Lock}
		switch e.Kind {
		case history.Admit:
			if before := list[k]; len(e.List) != len(before)+1 || !slices.Equal(e.List[:len(before)], before) {
				vs = append(vs, Violation{"D5", about(e.Register), e.At, fmt.Sprintf(
					"%s wrote %s to the %s register of %s from an old reading: %d values were there, it leaves %d",
					e.Who, e.Value, e.Register, e.Lock, len(before), len(e.List))})
			}
			list[k] = e.List
		case history.Final:
			final[k] = map[string]int{}
			for _, v := range e.List {
				final[k][v]++
			}
		}
	}
	for _, e := range events {
		values, ok := final[key{e.Register, e.Lock}]
		if n := values[e.Value]; ok && e.Kind == history.Wrote && n != 1 {
			vs = append(vs, Violation{"D5", about(e.Register), e.At, fmt.Sprintf(
				"%s of %s was acknowledged by the %s register of %s and is there %d times", e.Value, e.Who, e.Register, e.Lock, n)})
		}
	}
	return vs
}

func about(register string) Property {
	if register == history.Fenced {
		return F
	}
	return U
}
