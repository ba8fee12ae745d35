// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"sync"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/fencelock/fencelock/store/etcdstore/internal/lease"
)

// session is a session of the cluster, and what this process knows of its claims.
type session struct {
	*lease.Session
	s       *Store
	notices storekit.Watches

	mu      sync.Mutex
	ended   chan struct{} // closed when the session is
	stale   bool          // the session was opened again, with another value
	waits   map[uint64]*waiting
	grants  map[uint64]place // of claims that were granted at once
	busy    map[string]int   // names that claims waited for lately
	pushes  *pushes
	opening chan struct{}   // full while a watch is opened
	touched map[uint64]bool // claims attempted since a resumed session was opened, until the others are dropped
}

func newSession(s *Store, id driver.SessionID) *session {
	return &session{s: s, Session: s.cluster.NewSession(id), notices: storekit.Watches{Pause: noticePause}, ended: make(chan struct{}), opening: make(chan struct{}, 1),
		waits: map[uint64]*waiting{}, grants: map[uint64]place{}, busy: map[string]int{}}
}

// Open implements driver.Store.
func (s *Store) Open(ctx context.Context, req driver.OpenRequest) (driver.Session, driver.Renewal, error) {
	se := newSession(s, req.ID)
	se.notices.Report(req.Contended)
	renewal, err := se.Session.Open(ctx, req)
	if err != nil {
		return nil, driver.Renewal{}, err
	}
	if se.Resumed {
		se.touched = map[uint64]bool{}
	}
	se.replace(req.Before)
	return se, renewal, nil
}
