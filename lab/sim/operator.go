// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Act is something that an operator does by hand.
type Act struct {
	At    time.Duration
	Kind  Kind // Broke or Limited
	Name  string
	Limit int64
}

// acts plans what an operator does. Whatever limits are stored are removed when
// the storm is over.
func (s *Schedule) acts(r *rand.Rand) {
	if r.IntN(3) > 0 {
		return
	}
	for range 1 + r.IntN(5) {
		n := pick(r, s.Names...)
		a := Act{At: share(r, s.End, 0.05, 0.95), Kind: Broke, Name: n.Name}
		if n.Kind == SemaphoreName && r.IntN(4) > 0 {
			a.Kind, a.Limit = Limited, r.Int64N(n.Limit+3)
		}
		s.Acts = append(s.Acts, a)
	}
	for _, n := range s.Names {
		if n.Kind == SemaphoreName {
			s.Acts = append(s.Acts, Act{At: s.End + 4*s.T, Kind: Limited, Name: n.Name})
		}
	}
}

// act does it. It is written down before, so that no consequence can precede it.
func (w *world) act(a Act) {
	ctx := context.Background()
	if a.Kind == Limited {
		w.rec.add(Event{Kind: Limited, Name: a.Name, Limit: a.Limit})
		if err := w.store.SetLimit(ctx, a.Name, a.Limit); err == nil {
			w.cover.add("operator: limited")
		}
		return
	}
	st, err := w.store.Inspect(ctx, a.Name)
	i := slices.IndexFunc(st.Holders, func(h driver.Holder) bool { return !h.Kept })
	if err != nil || i < 0 {
		return
	}
	h := st.Holders[i]
	w.rec.add(Event{Kind: Broke, Name: a.Name, Token: h.Token, Mode: h.Mode})
	fence, err := w.store.Break(ctx, a.Name, h.Token)
	if err != nil {
		return
	}
	w.cover.add("operator: broke")
	if h.Mode == driver.Exclusive {
		w.resources[a.Name].raise(fence)
	}
}
