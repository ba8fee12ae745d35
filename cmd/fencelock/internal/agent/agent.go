// SPDX-License-Identifier: Apache-2.0

// Package agent is the conversation between the process that holds a lock for a script
// and the commands that renew and release it.
//
//	fencelock renew, release ──one Request──▶ agent ── lease ──▶ store
//	                         ◀──one Reply────
//
// Both sides fail closed. The agent does nothing for a request that it does not know, and
// a client takes an answer for a success only if the answer names the lock and no error.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
)

// The requests there are.
const (
	Renew   = "renew"
	Release = "release"
)

// Request is what a client sends.
type Request struct {
	Op string `json:"op"`
	// ForMS is how long the lock is held from now on; 0 leaves its end where it is.
	ForMS int64 `json:"for_ms,omitempty"`
}

// Reply is what the agent answers.
type Reply struct {
	Lock   string          `json:"lock"`
	Token  fencelock.Token `json:"token,omitempty,string"`
	Owner  string          `json:"owner"`
	Handle string          `json:"handle,omitempty"`
	// KeptMS is how long the lock is held from now on unless it is renewed.
	KeptMS int64 `json:"kept_ms,omitempty"`
	// Error and Code are what the client prints and ends with.
	Error string `json:"error,omitempty"`
	Code  int    `json:"code,omitempty"`
}

var (
	// ErrReleased is the answer of an agent whose work is done, and what a client
	// reports of one that has ended as it should.
	ErrReleased = errors.New("the lock is not held any more: it was released, or --max was over, or the process of --while has ended")
	// ErrUnknown is the answer to a request that an agent does not know.
	ErrUnknown = errors.New("unknown request")
	// ErrNoAnswer is what a client reports of an agent that gives no answer, or none that
	// can be used.
	ErrNoAnswer = errors.New("the agent that holds the lock does not answer")
)

// ReplyError is an error that the agent answered with.
type ReplyError struct {
	Code int
	Text string
}

func (e *ReplyError) Error() string { return e.Text }

const (
	// maxRequest is longer than any request.
	maxRequest = 4096
	// maxForMS is a hundred years: more does not fit a time.Duration.
	maxForMS = 100 * 365 * 24 * int64(time.Hour/time.Millisecond)
)

// Held is a lease that an agent holds.
type Held struct {
	Lease *fencelock.Lease
	Owner string
	// ExitCode returns the exit code that an error leads to.
	ExitCode func(error) int

	mu  sync.Mutex
	end time.Time
}

// Until sets when the lease is given back unless a client renews it.
func (h *Held) Until(end time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end = end
}

// Over reports whether the lease has reached that end.
func (h *Held) Over() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !time.Now().Before(h.end)
}

// Reply describes the lease.
func (h *Held) Reply(handle string) Reply {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Reply{Lock: h.Lease.Name(), Token: h.Lease.Token(), Owner: h.Owner, Handle: handle, KeptMS: time.Until(h.end).Milliseconds()}
}

// Converse answers one request and reports whether it was to release the lock.
func (h *Held) Converse(conn io.ReadWriter) (released bool) {
	var req Request
	if json.NewDecoder(io.LimitReader(conn, maxRequest)).Decode(&req) != nil {
		return false
	}
	_ = json.NewEncoder(conn).Encode(h.answer(req))
	return req.Op == Release
}

func (h *Held) answer(req Request) Reply {
	var err error
	switch req.Op {
	case Release:
		err = h.Lease.Unlock(context.Background())
		if errors.Is(err, fencelock.ErrReleased) {
			err = nil // not confirmed, but over; it ends with the TTL at the latest
		}
	case Renew:
		err = h.Lease.Err()
		switch {
		case errors.Is(err, fencelock.ErrReleased):
			err = ErrReleased
		case err == nil && req.ForMS > 0:
			h.Until(time.Now().Add(time.Duration(min(req.ForMS, maxForMS)) * time.Millisecond))
		}
	default:
		err = fmt.Errorf("%w %q", ErrUnknown, req.Op)
	}
	reply := h.Reply("")
	if req.Op == Release {
		reply.KeptMS = 0
	}
	if err != nil {
		reply.Error = fmt.Sprintf("%s: %s", h.Lease.Name(), text.Plain(err.Error()))
		reply.Code = h.ExitCode(err)
	}
	return reply
}

// Read reads what an agent answers.
func Read(r io.Reader) (Reply, error) {
	var reply Reply
	if err := json.NewDecoder(r).Decode(&reply); err != nil {
		return Reply{}, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	switch {
	case reply.Error == "" && reply.Code == 0 && reply.Lock != "":
		return reply, nil
	case reply.Error == "" || reply.Code <= 0 || reply.Code > 255:
		return reply, fmt.Errorf("%w as it should: %s", ErrNoAnswer, reply.Error)
	}
	return reply, &ReplyError{reply.Code, reply.Error}
}
