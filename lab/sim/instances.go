// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// instances counts the instances of sessions in the store. A session ends there when
// it is closed or not renewed in time. If an Open with its id arrives later, the store
// has another instance of it, without the claims of the first one.
type instances struct {
	// calls is held by the calls that begin or end an instance and shared by the
	// others, so that the instance that a call found is known.
	calls    sync.RWMutex
	mu       sync.Mutex
	sessions map[driver.SessionID]*instance
}

// instance is the newest instance of a session.
type instance struct {
	n    int
	ends time.Time // by the store's clock, if it is not renewed
}

func newInstances() *instances { return &instances{sessions: map[driver.SessionID]*instance{}} }

// open makes a call of Open.
func (x *instances) open(id driver.SessionID, call func() (driver.Renewal, error)) (driver.Renewal, error) {
	x.calls.Lock()
	defer x.calls.Unlock()
	answer, err := call()
	if err == nil {
		x.extend(id, answer)
	}
	return answer, err
}

// renew makes a call of KeepAlive.
func (x *instances) renew(id driver.SessionID, call func() (driver.Renewal, error)) (driver.Renewal, error) {
	x.calls.RLock()
	defer x.calls.RUnlock()
	answer, err := call()
	if err == nil {
		x.extend(id, answer)
	}
	return answer, err
}

// close makes a call of Close.
func (x *instances) close(id driver.SessionID, call func() error) error {
	x.calls.Lock()
	defer x.calls.Unlock()
	err := call()
	if s := x.sessions[id]; err == nil && s != nil {
		s.ends = time.Time{}
	}
	return err
}

// during makes a call that begins and ends no instance, and passes it the newest one.
func (x *instances) during(id driver.SessionID, call func(instance int)) {
	x.calls.RLock()
	defer x.calls.RUnlock()
	call(x.newest(id))
}

// newest returns the number of the newest instance of a session.
func (x *instances) newest(id driver.SessionID) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.sessions[id]; s != nil {
		return s.n
	}
	return 0
}

// extend notes until when a session is in the store. It is a new instance if the last
// one has ended.
func (x *instances) extend(id driver.SessionID, answer driver.Renewal) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.sessions[id]
	if s == nil {
		s = &instance{}
		x.sessions[id] = s
	}
	if !answer.Clock.Before(s.ends) {
		s.n++
	}
	s.ends = answer.Clock.Add(answer.TTL)
}
