// SPDX-License-Identifier: Apache-2.0

package event

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
)

// load samples what a server does: its processor time and its connections.
type load struct {
	server *servers.RedisServer
	stop   chan struct{}
	over   sync.WaitGroup

	mu    sync.Mutex
	times []usage // about one in a second
	conns int
}

// usage is the processor time of a server, in seconds, up to a moment.
type usage struct {
	at   time.Time
	used float64
}

// watch begins to sample a server.
func watch(s *servers.RedisServer) *load {
	l := &load{server: s, stop: make(chan struct{})}
	l.over.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			l.sample()
			select {
			case <-l.stop:
				return
			case <-tick.C:
			}
		}
	})
	return l
}

func (l *load) sample() {
	now := usage{time.Now(), processorTime(l.server.PID())}
	conns, _ := strconv.Atoi(l.server.Info("clients", "connected_clients"))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times, l.conns = append(l.times, now), max(l.conns, conns)
}

// end stops sampling, and returns the largest share of a core in a second, the processor time in all, and the
// most connections.
func (l *load) end() (peak, all float64, conns int) {
	close(l.stop)
	l.over.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := 1; i < len(l.times); i++ {
		// A server that is paused answers late, so the samples are not a second apart.
		peak = max(peak, (l.times[i].used-l.times[i-1].used)/l.times[i].at.Sub(l.times[i-1].at).Seconds())
	}
	if n := len(l.times); n > 0 {
		all = l.times[n-1].used - l.times[0].used
	}
	return peak, all, l.conns
}

// processorTime is that of all threads of a process, in seconds.
func processorTime(pid int) (seconds float64) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		first, _, _ := strings.Cut(string(text), " ")
		ns, _ := strconv.ParseInt(first, 10, 64)
		seconds += time.Duration(ns).Seconds()
	}
	return seconds
}
