// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// starterSignals are the signals that ask acquire to end. Before the answer of the agent
// they are the agent's, which waits for the lock. After that the agent must not end by
// them, or the script would work without the lock: the starter itself acts on them.
type starterSignals struct {
	mu    sync.Mutex
	agent *os.Process
	first syscall.Signal
}

// catchSignals begins to catch them, for as long as the process lives.
func catchSignals() *starterSignals {
	s := &starterSignals{}
	asked := make(chan os.Signal, 4)
	signal.Notify(asked, endSignals...)
	go func() {
		for sig := range asked {
			s.caughtOne(sig.(syscall.Signal))
		}
	}()
	return s
}

func (s *starterSignals) caughtOne(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == 0 {
		s.first = sig
	}
	if s.agent != nil {
		_ = s.agent.Signal(sig)
	}
}

// passTo sets the process that gets the signals from now on; nil is no process. A signal
// that came before is passed on, too.
func (s *starterSignals) passTo(agent *os.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agent = agent
	if agent != nil && s.first != 0 {
		_ = agent.Signal(s.first)
	}
}

// caught returns the first signal that came, or 0.
func (s *starterSignals) caught() syscall.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first
}
