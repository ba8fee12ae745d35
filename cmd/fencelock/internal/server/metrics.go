// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"time"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/metrics"
)

// metrics answers a scrape of Prometheus from the last poll. It does not count as a viewer:
// a scrape must not make the server poll more often.
func (s *Server) metrics(w http.ResponseWriter, c *call) error {
	text := metrics.Text(&metrics.Input{Watches: s.cfg.Watches, Sums: &s.sums, State: s.poller.Now(), Polls: s.poller.Polls(), Lists: s.poller.Lists,
		Viewers: s.streams.Load(), Sees: c.caller.Sees, Now: time.Now()})
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write([]byte(text)) // the client may be gone
	return nil
}
