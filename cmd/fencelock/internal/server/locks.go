// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/access"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/lockfeed"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
)

// maxPage is how many locks or sessions one answer has at most.
const maxPage = 500

// asOf is from when an answer is. Durations in it are those of that moment.
type asOf struct {
	Revision uint64    `json:"revision"`
	Time     time.Time `json:"as_of"`
	// OldMS is how old the answer is: a viewer adds it and needs no clock that agrees.
	OldMS int64 `json:"old_ms"`
	// Error is why the store was not read since then.
	Error string `json:"error,omitempty"`
}

// row is a lock in the list.
type row struct {
	Lock    string           `json:"lock"`
	State   string           `json:"state"`
	Holder  *lockview.Holder `json:"holder,omitempty"` // the first
	Holders int              `json:"holders"`
	AgeMS   int64            `json:"age_ms"` // of the oldest holder
	// EndsInMS is when the first holder ends unless it renews.
	EndsInMS   int64 `json:"ends_in_ms"`
	Waiting    int   `json:"waiting"`
	WaitedMS   int64 `json:"waited_ms"` // the longest wait
	NotRenewed bool  `json:"not_renewed,omitempty"`
	GraceMS    int64 `json:"grace_ms,omitempty"`
}

type lockList struct {
	asOf
	lockfeed.Counts
	Locks []row `json:"locks"`
}

// lockDetail is a lock with its queue and its last holders.
type lockDetail struct {
	asOf
	lockview.Lock
	NotRenewed bool            `json:"not_renewed,omitempty"`
	History    []lockfeed.Span `json:"history"`
}

// current returns the last snapshot, or a problem if no poll succeeded yet.
func (s *Server) current(c *call) (*lockfeed.Snapshot, asOf, error) {
	state := s.poller.Current(c.Context())
	if state.Snapshot == nil {
		reason := "the first poll is not over; try again later"
		if state.Err != nil {
			reason = c.storeError(state.Err)
		}
		return nil, asOf{}, failed(http.StatusServiceUnavailable, "store", "the store was never read: %s", reason)
	}
	at := asOf{Revision: state.Snapshot.Revision, Time: state.Snapshot.At, OldMS: time.Since(state.Snapshot.At).Milliseconds()}
	if state.Err != nil {
		at.Error = c.storeError(state.Err)
	}
	return state.Snapshot, at, nil
}

func (s *Server) locks(w http.ResponseWriter, c *call) error {
	if !s.poller.Lists {
		return failed(http.StatusNotImplemented, "listing", "%s cannot list its locks; ask for one by name", s.cfg.Store.Caps().Engine)
	}
	q, err := c.lockQuery()
	if err != nil {
		return err
	}
	snapshot, at, err := s.current(c)
	if err != nil {
		return err
	}
	page, counts := snapshot.Page(q)
	list := lockList{asOf: at, Counts: counts, Locks: make([]row, 0, len(page))}
	for _, st := range page {
		list.Locks = append(list.Locks, rowOf(st, snapshot.Troubled[st.Name]))
	}
	return reply(w, list)
}

// lockQuery reads which locks are wanted.
func (c *call) lockQuery() (*lockfeed.Query, error) {
	q := &lockfeed.Query{Sees: c.caller.Sees, After: c.query.Get("after")}
	q.Prefix, q.Owner, q.Text = c.query.Get("prefix"), c.query.Get("owner"), c.query.Get("text")
	var errs [4]error
	q.OlderThan, errs[0] = c.duration("older_than")
	q.Waited, errs[1] = c.flag("waited")
	q.Offset, errs[2] = c.number("offset", 1<<30, 0)
	q.Limit, errs[3] = c.number("limit", maxPage, 100)
	q.Order = lockview.Order(cmp.Or(c.query.Get("sort"), string(lockview.Contended)))
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	if !slices.Contains(lockview.Orders, q.Order) {
		return nil, failed(http.StatusBadRequest, "query", "sort=%s: it is one of %q", q.Order, lockview.Orders)
	}
	if q.After != "" && q.Order != lockview.ByName {
		return nil, failed(http.StatusBadRequest, "query", "after is for sort=name; use offset")
	}
	return q, nil
}

func rowOf(st *fencelock.Status, troubled bool) row {
	r := row{Lock: st.Name, State: lockview.State(st), Holders: len(st.Holders) + st.MoreHolders, AgeMS: lockview.Oldest(st).Milliseconds(),
		Waiting: st.Waiting, WaitedMS: lockview.Waited(st).Milliseconds(), NotRenewed: troubled, GraceMS: st.Grace.Milliseconds()}
	if len(st.Holders) > 0 {
		r.Holder = lockview.HolderOf(&st.Holders[0])
		r.EndsInMS = r.Holder.EndsInMS
		if !st.Holders[0].Kept {
			r.EndsInMS = lockview.EndsNext(st).Milliseconds()
		}
	}
	return r
}

func (s *Server) lock(w http.ResponseWriter, c *call) error {
	name := c.query.Get("name")
	if err := s.allowed(c, access.See, name); err != nil {
		return err
	}
	snapshot, at, err := s.current(c)
	if err != nil {
		return err
	}
	st := &fencelock.Status{Name: name}
	if found := snapshot.Lock(name); found != nil {
		st = found
	} else if !s.poller.Lists {
		asked, err := s.inspect(c, name)
		if err != nil {
			return err
		}
		st = &asked
	}
	return reply(w, lockDetail{asOf: at, Lock: lockview.LockOf(*st), NotRenewed: snapshot.Troubled[name], History: s.poller.History.Of(name, snapshot)})
}

// inspect asks the store, for what no snapshot has.
func (s *Server) inspect(c *call, name string) (fencelock.Status, error) {
	st, err := s.cfg.Client.Inspect(c.Context(), name)
	switch {
	case errors.Is(err, fencelock.ErrUnavailable):
		return st, failed(http.StatusServiceUnavailable, "store", "the lock was not read: %s", c.storeError(err))
	case err != nil:
		return st, failed(http.StatusBadRequest, "name", "%s", text.OneLine(err))
	}
	return st, nil
}
