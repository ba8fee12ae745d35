// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"time"
)

// span is a context for the calls to nodes that begin before a moment. It ends by
// itself.
type span struct {
	context.Context
	cancel context.CancelFunc
	before time.Time
}

// bound returns a context for one call to one node. It does not end with the
// caller's: what was sent must be answered or withdrawn, even when the caller has gone. Calls that
// begin at about the same time share one: with a timer for each, of which there are as
// many as nodes, a lock cost the client a third more. So it ends up to an eighth sooner.
func (s *Store) bound() context.Context {
	now := time.Now()
	last := s.last.Load()
	if last == nil || !now.Before(last.before) {
		last = &span{before: now.Add(s.opts.NodeTimeout / 8)}
		last.Context, last.cancel = context.WithDeadline(context.Background(), now.Add(s.opts.NodeTimeout))
		s.last.Store(last) // of two at a time one is not shared, no harm
	}
	return last
}
