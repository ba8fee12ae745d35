// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/lockview"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/access"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/audit"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
)

const (
	maxBody   = 8 << 10
	maxReason = 500 // characters
)

// breakRequest is what the caller of break sends. The token makes the call safe to repeat:
// it can hit no lease but the one that the caller saw.
type breakRequest struct {
	Lock   string          `json:"lock"`
	Token  fencelock.Token `json:"token,string"`
	Reason string          `json:"reason"`
}

// breakLock force-releases a lock. The audit log has the call before the store does, so that
// no lock is broken without a trail.
func (s *Server) breakLock(w http.ResponseWriter, c *call) error {
	var req breakRequest
	if err := decode(w, c, &req, maxBody); err != nil {
		return err
	}
	c.about.token, c.about.reason = req.Token, req.Reason
	for _, right := range []access.Right{access.See, access.ForceUnlock} { // the answer shows the holder
		if err := s.allowed(c, right, req.Lock); err != nil {
			return err
		}
	}
	req.Reason = strings.TrimSpace(req.Reason)
	switch {
	case req.Token <= 0:
		return failed(http.StatusBadRequest, "token", "give the token of the holder to break, as a string of digits")
	case req.Reason == "" || utf8.RuneCountInString(req.Reason) > maxReason:
		return failed(http.StatusBadRequest, "reason", "give a reason of 1 to %d characters for the audit log", maxReason)
	case !s.limits.breaks.allow(c.caller.Name, time.Now()):
		return s.tooMany(w, c, s.limits.breaks, c.caller.Name)
	}
	entry := audit.Entry{Kind: audit.Asked, Lock: req.Lock, Token: req.Token, Reason: req.Reason}
	if !s.audit(c, entry) {
		return failed(http.StatusServiceUnavailable, "audit", "the audit log cannot be written, so nothing was done; the server's log has the reason")
	}
	done, p := s.doBreak(c, &req)
	if p != nil {
		entry.Kind, entry.Error, entry.Status = audit.Failed, p.Detail, p.Status
		s.audit(c, entry)
		return p
	}
	entry.Kind, entry.Fence, entry.Status = audit.Broken, done.Fence, http.StatusOK
	if done.Holder != nil {
		entry.Holder = done.Holder.Owner
	}
	s.audit(c, entry)
	return reply(w, done)
}

// doBreak calls the store. A caller that hangs up does not stop it halfway.
func (s *Server) doBreak(c *call, req *breakRequest) (*lockview.Broken, *problem) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), 2*s.cfg.Timeout)
	defer cancel()
	st, err := s.cfg.Client.Inspect(ctx, req.Lock)
	var done *lockview.Broken
	if err == nil {
		done, err = lockview.Break(ctx, s.cfg.Client, &st, lockview.BreakRequest{Token: req.Token, Reason: req.Reason, By: c.caller.Name})
	}
	switch {
	case err == nil:
		return done, nil
	case errors.Is(err, lockview.ErrGrace):
		return nil, failed(http.StatusConflict, "grace", "%s", text.OneLine(err))
	case errors.Is(err, fencelock.ErrNotHeld):
		return nil, failed(http.StatusConflict, "not_held", "no holder of %q has token %v; nothing was done", req.Lock, req.Token)
	case errors.Is(err, fencelock.ErrUnavailable):
		s.cfg.Logger.Error("a break failed", "lock", req.Lock, "error", err) // the caller may not learn all of it
		return nil, failed(http.StatusServiceUnavailable, "store", "the store did not answer, and the lock may be broken or not; inspect it before you try again: %s", c.storeError(err))
	}
	return nil, failed(http.StatusBadRequest, "name", "%s", text.OneLine(err))
}

// decode reads a body. Only JSON is accepted: a form of another site's page cannot send it
// without asking first.
func decode(w http.ResponseWriter, c *call, v any, most int64) error {
	kind, _, err := mime.ParseMediaType(c.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || c.Header.Get("Content-Encoding") != "" {
		return failed(http.StatusUnsupportedMediaType, "body", "send the body as Content-Type: application/json, not encoded")
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, c.Body, most))
	dec.DisallowUnknownFields()
	var tooLong *http.MaxBytesError
	switch err := dec.Decode(v); {
	case errors.As(err, &tooLong):
		return failed(http.StatusRequestEntityTooLarge, "body", "the body is longer than %d bytes", most)
	case err != nil:
		return failed(http.StatusBadRequest, "body", "the body cannot be read: %v", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return failed(http.StatusBadRequest, "body", "there is more after the end of the object; leave it out")
	}
	return nil
}
