// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/fencelock/fencelock"
)

// maxSessionLocks is how many names of locks a session is shown with.
const maxSessionLocks = 20

// session is a process, or a client of the lock API of a server, as far as it holds locks or waits for them: one that
// does neither cannot be seen.
type session struct {
	Session  string   `json:"session"`
	Owner    string   `json:"owner"`
	Held     int      `json:"held"`
	Waits    int      `json:"waits"`
	Holds    []string `json:"holds"`
	WaitsFor []string `json:"waits_for"`
	OldestMS int64    `json:"oldest_ms"`
	// EndsInMS is when its first lock ends unless it renews.
	EndsInMS int64 `json:"ends_in_ms"`
}

type sessionList struct {
	asOf
	Total    int       `json:"total"`
	Sessions []session `json:"sessions"`
}

func (s *Server) sessions(w http.ResponseWriter, c *call) error {
	offset, err := c.number("offset", 1<<30, 0)
	if err != nil {
		return err
	}
	limit, err := c.number("limit", maxPage, 100)
	if err != nil {
		return err
	}
	snapshot, at, err := s.current(c)
	if err != nil {
		return err
	}
	all := sessionsOf(snapshot.Visible(c.caller.Sees))
	if text := strings.ToLower(c.query.Get("text")); text != "" {
		all = slices.DeleteFunc(all, func(s session) bool {
			return !strings.Contains(strings.ToLower(s.Owner), text) && !strings.HasPrefix(s.Session, text)
		})
	}
	page := all[min(offset, len(all)):]
	return reply(w, sessionList{at, len(all), page[:min(limit, len(page))]})
}

// sessionsOf groups locks by session and owner, because all clients of the lock API of a server use the session of the
// server; those with the most waits and locks come first.
func sessionsOf(locks []fencelock.Status) []session {
	type key struct{ session, owner string }
	byKey := map[key]*session{}
	of := func(id, owner string) *session {
		k := key{id, owner}
		if byKey[k] == nil {
			byKey[k] = &session{Session: id, Owner: owner, Holds: []string{}, WaitsFor: []string{}}
		}
		return byKey[k]
	}
	for i := range locks {
		st := &locks[i]
		for _, h := range st.Holders {
			if h.Kept {
				continue
			}
			s := of(h.Claim.Session.String(), h.Record.Owner)
			if ends := h.EndsIn.Milliseconds(); s.Held == 0 || ends < s.EndsInMS {
				s.EndsInMS = ends
			}
			s.Held++
			s.OldestMS = max(s.OldestMS, h.Age.Milliseconds())
			if len(s.Holds) < maxSessionLocks {
				s.Holds = append(s.Holds, st.Name)
			}
		}
		for _, waiter := range st.Waiters {
			s := of(waiter.Claim.Session.String(), waiter.Record.Owner)
			s.Waits++
			if len(s.WaitsFor) < maxSessionLocks {
				s.WaitsFor = append(s.WaitsFor, st.Name)
			}
		}
	}
	all := make([]session, 0, len(byKey))
	for _, s := range byKey {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b session) int {
		return cmp.Or(cmp.Compare(b.Waits, a.Waits), cmp.Compare(b.Held, a.Held), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Session, b.Session))
	})
	return all
}
