// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/access"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/leases"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
)

const (
	// maxWait is how long a call waits for a lock: less than proxies usually allow.
	maxWait = 20 * time.Second
	// maxLockBody is for a call that names all leases of a session.
	maxLockBody = 256 << 10
	// maxID is how many bytes the id of an acquisition has at most.
	maxID = 64
	// defaultTTL is that of a session that does not choose one.
	defaultTTL = 10 * time.Second
	// answerWithin is how long an answer may take beyond the wait.
	answerWithin = 30 * time.Second
)

type sessionRequest struct {
	TTLMS int64  `json:"ttl_ms,omitempty"`
	Owner string `json:"owner,omitempty"`
}

// sessionMade is a session. Nothing of it is kept: to make one that is not used costs nothing.
type sessionMade struct {
	Session string `json:"session"`
	TTLMS   int64  `json:"ttl_ms"`
	// RenewMS is how often to renew.
	RenewMS int64 `json:"renew_ms"`
	// Carried is set if leases survive the server that they were acquired through.
	Carried bool `json:"carried"`
}

type acquireRequest struct {
	Session string `json:"session"`
	ID      string `json:"id"`
	Lock    string `json:"lock"`
	WaitMS  int64  `json:"wait_ms,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Watch   bool   `json:"watch,omitempty"`
}

type renewRequest struct {
	Session string         `json:"session"`
	Leases  []leases.Named `json:"leases"`
	WaitMS  int64          `json:"wait_ms,omitempty"`
}

type releaseRequest struct {
	Session string `json:"session"`
	leases.Named
}

type leaseList struct {
	Leases []leases.Answer `json:"leases"`
}

// makeSession makes a session.
func (s *Server) makeSession(w http.ResponseWriter, c *call) error {
	var req sessionRequest
	if err := decode(w, c, &req, maxBody); err != nil {
		return err
	}
	most := s.maxTTL()
	if req.TTLMS == 0 {
		req.TTLMS = min(defaultTTL, most).Milliseconds()
	}
	if req.TTLMS < leases.MinTTL.Milliseconds() || req.TTLMS > most.Milliseconds() {
		return failed(http.StatusBadRequest, "ttl", "ttl_ms is from %d to %d at this server", leases.MinTTL.Milliseconds(), most.Milliseconds())
	}
	ttl := time.Duration(req.TTLMS) * time.Millisecond
	handle, err := leases.NewHandle(ttl, req.Owner)
	if err != nil {
		return failed(http.StatusBadRequest, "owner", "%v", err)
	}
	return reply(w, sessionMade{handle.Text(), ttl.Milliseconds(), ttl.Milliseconds() / 5, s.leases.Carries()})
}

// maxTTL is the longest TTL of a session. The server's own leases are renewed after a third of
// their TTL, so that more than half of it is always left for a client that moves.
func (s *Server) maxTTL() time.Duration { return s.cfg.Locks.Guarantees().TTL / 2 }

// caller reads the session of a call. The answer is the same whatever is wrong with it.
func (s *Server) sessionOf(c *call, text string) (*leases.Caller, error) {
	handle, err := leases.ParseHandle(text)
	if err != nil || handle.TTL() < leases.MinTTL || handle.TTL() > s.maxTTL() {
		return nil, failed(http.StatusBadRequest, "session", "the session is missing or not one of this API; make one with POST /v1/session")
	}
	return &leases.Caller{User: c.caller.Name, Handle: handle, Received: c.received}, nil
}

// mayTake checks a lease that a call names.
func (s *Server) mayTake(c *call, id, lock string) error {
	if id == "" || len(id) > maxID || !utf8.ValidString(id) {
		return failed(http.StatusBadRequest, "id", "the id of an acquisition has 1 to %d bytes of UTF-8; choose a new one for each", maxID)
	}
	return s.allowed(c, access.Take, lock)
}

// waitOf reads how long a call may wait, and lets its connection last that long.
func waitOf(w http.ResponseWriter, ms int64) (time.Duration, error) {
	if ms < 0 || ms > maxWait.Milliseconds() {
		return 0, failed(http.StatusBadRequest, "wait", "wait_ms is from 0 to %d; call again to wait longer", maxWait.Milliseconds())
	}
	wait := time.Duration(ms) * time.Millisecond
	if wait > 0 {
		rc := http.NewResponseController(w)
		_ = rc.SetReadDeadline(time.Time{}) // it would end the wait
		_ = rc.SetWriteDeadline(time.Now().Add(wait + answerWithin))
	}
	return wait, nil
}

// acquire gets a lock.
func (s *Server) acquire(w http.ResponseWriter, c *call) error {
	var req acquireRequest
	if err := decode(w, c, &req, maxBody); err != nil {
		return err
	}
	c.about.reason = req.Reason
	caller, err := s.sessionOf(c, req.Session)
	if err == nil {
		err = s.mayTake(c, req.ID, req.Lock)
	}
	if err != nil {
		return err
	}
	if utf8.RuneCountInString(req.Reason) > maxReason {
		return failed(http.StatusBadRequest, "reason", "a reason has at most %d characters", maxReason)
	}
	wait, err := waitOf(w, req.WaitMS)
	if err != nil {
		return err
	}
	answer, err := s.leases.Acquire(c.Context(), caller, &leases.Request{ID: req.ID, Lock: req.Lock, Reason: req.Reason, Wait: wait, Watch: req.Watch})
	if err != nil {
		return s.lockProblem(c, err)
	}
	return reply(w, answer)
}

// renew keeps leases, and reports what happened to them.
func (s *Server) renew(w http.ResponseWriter, c *call) error {
	var req renewRequest
	caller, err := s.namedLeases(w, c, &req)
	if err != nil {
		return err
	}
	wait, err := waitOf(w, req.WaitMS)
	if err != nil {
		return err
	}
	answers, err := s.leases.Renew(c.Context(), caller, req.Leases, wait)
	if err != nil {
		return s.lockProblem(c, err)
	}
	return reply(w, leaseList{answers})
}

// namedLeases reads a call that names leases.
func (s *Server) namedLeases(w http.ResponseWriter, c *call, req *renewRequest) (*leases.Caller, error) {
	if err := decode(w, c, req, maxLockBody); err != nil {
		return nil, err
	}
	caller, err := s.sessionOf(c, req.Session)
	if err != nil {
		return nil, err
	}
	if len(req.Leases) > leases.MaxLeases {
		return nil, failed(http.StatusBadRequest, "leases", "a session has at most %d leases; use a second one", leases.MaxLeases)
	}
	for _, n := range req.Leases {
		c.about.token = n.Token
		if err := s.mayTake(c, n.ID, n.Lock); err != nil {
			return nil, err
		}
	}
	return caller, nil
}

// release gives a lease back.
func (s *Server) release(w http.ResponseWriter, c *call) error {
	var req releaseRequest
	if err := decode(w, c, &req, maxBody); err != nil {
		return err
	}
	c.about.token = req.Token
	caller, err := s.sessionOf(c, req.Session)
	if err == nil {
		err = s.mayTake(c, req.ID, req.Lock)
	}
	if err != nil {
		return err
	}
	ctx, cancel := s.storeCall(c)
	defer cancel()
	answer, err := s.leases.Release(ctx, caller, &req.Named)
	if err != nil {
		return s.lockProblem(c, err)
	}
	return reply(w, answer)
}

// end releases all leases of a session.
func (s *Server) end(w http.ResponseWriter, c *call) error {
	var req renewRequest
	caller, err := s.namedLeases(w, c, &req)
	if err != nil {
		return err
	}
	ctx, cancel := s.storeCall(c)
	defer cancel()
	answers, err := s.leases.End(ctx, caller, req.Leases)
	if err != nil {
		return s.lockProblem(c, err)
	}
	return reply(w, leaseList{answers})
}

// storeCall is for a call that a client must not stop halfway by hanging up.
func (s *Server) storeCall(c *call) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(c.Context()), 2*s.cfg.Timeout)
}

// lockProblem is the answer to an error of leases.
func (s *Server) lockProblem(c *call, err error) error {
	switch {
	case errors.Is(err, leases.ErrOver):
		return failed(http.StatusConflict, "session", "%v", err)
	case errors.Is(err, leases.ErrOtherLock):
		return failed(http.StatusConflict, "id", "%v", err)
	case errors.Is(err, leases.ErrTooManySessions), errors.Is(err, leases.ErrTooManyLeases):
		return failed(http.StatusTooManyRequests, "limit", "%v", err)
	case errors.Is(err, fencelock.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return failed(http.StatusServiceUnavailable, "store", "the store did not answer; send the same call again: %s", c.storeError(err))
	}
	var grace *fencelock.GraceError
	if errors.As(err, &grace) {
		p := failed(http.StatusServiceUnavailable, "grace", "%s", text.OneLine(err))
		p.retryAfter = grace.RetryAfter
		return p
	}
	var named *fencelock.Error
	if errors.As(err, &named) {
		s.cfg.Logger.Error("a lock was not taken", "lock", named.Name, "error", err)
		return failed(http.StatusServiceUnavailable, "store", "the store refused: %s", c.storeError(err))
	}
	// The name was checked before, so that the texts for people are too long together.
	return failed(http.StatusBadRequest, "reason", "%s", cmp.Or(text.OneLine(err), "the lock was not taken"))
}
