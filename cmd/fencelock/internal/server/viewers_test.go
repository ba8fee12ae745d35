// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// TestViewersShareOnePoll: a hundred viewers cost the store as many commands per poll as
// one. Each follows the events and fetches, after every poll, some of what the console shows.
func TestViewersShareOnePoll(t *testing.T) {
	redis := startRedis(t)
	w := newWorld(t, onRedis(t, redis), unlimited)
	// Neither renewals nor the check of the server shall fall into the count.
	owner := client(t, w.store, &fencelock.Options{Owner: "ann", TTL: time.Minute})
	w.until("the server is checked", func() bool {
		var h storeHealth
		w.get("/v1/store", &h, nil)
		return h.CheckedAt != nil
	})
	for i := range 50 {
		w.holdWith(owner, fmt.Sprintf("lock/%02d", i))
	}
	w.until("all are seen", func() bool { return w.list("").Total == 50 })
	one := w.commandsPerPoll(redis, 1, 10)
	many := w.commandsPerPoll(redis, 100, 10)
	figure.Print("serve-store-commands-per-viewer", many/one, figure.AtMost(1.1))
	if many/one > 1.1 {
		t.Errorf("%.1f commands per poll with one viewer, %.1f with a hundred", one, many)
	}
}

// shown is what the console fetches.
var shown = []string{"/v1/locks", "/v1/lock?name=lock/01", "/v1/graph", "/v1/sessions", "/v1/store"}

// commandsPerPoll counts the commands of the store while viewers look on for some polls.
func (w *world) commandsPerPoll(redis *servers.RedisServer, viewers, polls int) float64 {
	var all sync.WaitGroup
	end := make(chan struct{})
	var ready sync.WaitGroup
	for i := range viewers {
		ready.Add(1)
		v := w.watch("", nil)
		all.Go(func() {
			for n := i; ; n++ {
				e := v.next()
				select {
				case <-end:
					return
				default:
				}
				if e.kind == "" {
					w.Error("a stream has ended")
					if n == i {
						ready.Done()
					}
					return
				}
				if e.kind != "poll" {
					n--
					continue
				}
				// One of them after each poll: all of them would measure this machine.
				if resp, err := http.Get(w.web.URL + shown[n%len(shown)]); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				if n == i {
					ready.Done()
				}
			}
		})
	}
	ready.Wait()
	commands, revision := w.commands(redis), w.server.poller.Now().Snapshot.Revision
	w.until("polls", func() bool { return w.server.poller.Now().Snapshot.Revision >= revision+uint64(polls) })
	commands, revision = w.commands(redis)-commands, w.server.poller.Now().Snapshot.Revision-revision
	close(end)
	all.Wait()
	return float64(commands) / float64(revision)
}

// commands counts the commands that the server has processed.
func (w *world) commands(redis *servers.RedisServer) int {
	n, err := strconv.Atoi(redis.Info("stats", "total_commands_processed"))
	must.OK(w, err)
	return n
}
