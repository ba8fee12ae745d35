// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/access"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/audit"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/plain"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/tfstate"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/fence"
)

const (
	terraformPath = "/v1/terraform"
	// maxState bounds a state, and stateWithin the time that it may take to come or go.
	maxState    = 64 << 20
	stateWithin = 2 * time.Minute
)

// lockInfo is what Terraform and OpenTofu send to lock a state, and expect of the one that
// has locked it.
type lockInfo struct {
	ID        string
	Operation string
	Info      string
	Who       string
	Version   string
	Created   time.Time
	Path      string
}

// stateOf returns the state that a call is about, if the caller may see it and has one of the
// rights. Taking locks is another right, because a state has passwords in it.
func (s *Server) stateOf(c *call, rights ...access.Right) (name string, err error) {
	if s.terraform == nil {
		// Not 404: Terraform takes that for a state that is not there, and builds everything again.
		return "", failed(http.StatusNotImplemented, "terraform", "the server keeps no states; start it with --terraform DIR")
	}
	name = c.query.Get("name")
	if err := s.allowed(c, access.See, name); err != nil {
		return "", err
	}
	for _, right := range rights {
		if err = s.allowed(c, right, name); err == nil {
			return name, nil
		}
	}
	return "", err
}

// printable reports whether the store can keep a text as a part of a name.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// stateFailed is the answer to an error of the folder.
func (s *Server) stateFailed(w http.ResponseWriter, err error) error {
	var locked *tfstate.LockedError
	if errors.As(err, &locked) {
		return replyLocked(w, locked.Lock.Info)
	}
	return s.stateProblem(err)
}

// stateProblem is the same for other errors than that of a state that is locked.
func (s *Server) stateProblem(err error) error {
	var tooLong *http.MaxBytesError
	switch {
	case errors.Is(err, tfstate.ErrNotLocked):
		return failed(http.StatusConflict, "not_locked", "the lock was unlocked, by force or not, or never taken, so the state is not written; lock it and apply again")
	case errors.Is(err, fence.ErrStale):
		return failed(http.StatusConflict, "stale", "%s; lock again, and if that does not help, find out whether the store lost its data", plain.OneLine(err))
	case errors.Is(err, tfstate.ErrOld):
		return failed(http.StatusConflict, "old", "%s; the write was retried, and came late", plain.OneLine(err))
	case errors.Is(err, tfstate.ErrBusy):
		s.cfg.Logger.Error("a Terraform state cannot be changed", "error", err)
		return failed(http.StatusServiceUnavailable, "busy", "%v; nothing was done, try again", tfstate.ErrBusy)
	case errors.As(err, &tooLong):
		return failed(http.StatusRequestEntityTooLarge, "body", "the state is longer than %d bytes", maxState)
	}
	return err
}

// replyLocked names the holder as Terraform expects it.
func replyLocked(w http.ResponseWriter, info json.RawMessage) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusLocked)
	_, _ = w.Write(append(bytes.Clone(info), '\n'))
	return nil
}

func (s *Server) stateGet(w http.ResponseWriter, c *call) error {
	name, err := s.stateOf(c, access.State)
	if err != nil {
		return err
	}
	file, err := s.terraform.states.Get(name)
	if err != nil {
		return err
	}
	if file == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	defer file.Close()
	stat, err := file.Stat()
	if err != nil {
		return err
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(stateWithin))
	sendState(w, file, stat.Size())
	return nil
}

// sendState sends all of a state, or ends the connection: a part of it must not be taken for all of it.
func sendState(w http.ResponseWriter, state io.Reader, size int64) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	if n, err := io.Copy(w, state); err != nil || n != size {
		panic(http.ErrAbortHandler)
	}
}

// statePost writes a state with the id of the lock that is on record, and with no other.
func (s *Server) statePost(w http.ResponseWriter, c *call) error {
	name, err := s.stateOf(c, access.State)
	if err != nil {
		return err
	}
	id := c.query.Get("ID")
	if id == "" {
		return failed(http.StatusConflict, "lock", "a state is written under its lock only: give lock_address and unlock_address in the backend, and do not use -lock=false")
	}
	body, err := stateBody(w, c)
	if err != nil {
		return err
	}
	admits := func(r *tfstate.Record) error {
		err := r.Admits(id)
		if err == nil && r.Lock.User != c.caller.Name {
			return &tfstate.LockedError{Lock: *r.Lock}
		}
		return err
	}
	if err := s.terraform.states.Write(c.Context(), name, body, admits); err != nil {
		return s.stateFailed(w, err)
	}
	return reply(w, health{true})
}

// errDigest: what came is not what was sent.
var errDigest = failed(http.StatusBadRequest, "body", "the body does not have the digest of Content-MD5; send it again")

// stateBody is the state as it comes in, with an error at its end if it is not what was sent.
func stateBody(w http.ResponseWriter, c *call) (io.Reader, error) {
	if kind, _, err := mime.ParseMediaType(c.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, failed(http.StatusUnsupportedMediaType, "body", "send the state as Content-Type: application/json")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(stateWithin))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(stateWithin))
	body := http.MaxBytesReader(w, c.Body, maxState)
	want := c.Header.Get("Content-MD5")
	if want == "" {
		return body, nil
	}
	hash := md5.New() // Terraform has no other
	end := readerFunc(func([]byte) (int, error) {
		if base64.StdEncoding.EncodeToString(hash.Sum(nil)) != want {
			return 0, errDigest
		}
		return 0, io.EOF
	})
	return io.MultiReader(io.TeeReader(body, hash), end), nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func (s *Server) stateDelete(w http.ResponseWriter, c *call) error {
	name, err := s.stateOf(c, access.Break)
	if err != nil {
		return err
	}
	return s.withTrail(w, c, audit.Entry{Lock: name, Reason: "removal of the Terraform state"}, func(ctx context.Context) error {
		return s.terraform.states.Clear(ctx, name)
	})
}

// withTrail does what an operator may, at the rate of breaks, between two lines of the audit log. A
// caller that hangs up does not stop it halfway.
func (s *Server) withTrail(w http.ResponseWriter, c *call, entry audit.Entry, do func(context.Context) error) error {
	if !s.limits.breaks.allow(c.caller.Name, time.Now()) {
		return s.tooMany(w, c, s.limits.breaks, c.caller.Name)
	}
	entry.Kind = audit.Asked
	if !s.audit(c, entry) {
		return failed(http.StatusServiceUnavailable, "audit", "the audit log cannot be written, so nothing was done; the server's log has the reason")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), 2*s.cfg.Timeout)
	defer cancel()
	err := do(ctx)
	if err == nil {
		entry.Kind, entry.Status = audit.Broken, http.StatusOK
		s.audit(c, entry)
		return reply(w, health{true})
	}
	entry.Kind, entry.Error, entry.Status = audit.Failed, plain.OneLine(err), http.StatusLocked
	var locked *tfstate.LockedError
	if !errors.As(err, &locked) {
		err = s.stateProblem(err)
		entry.Status = statusOf(err)
	}
	s.audit(c, entry)
	return s.stateFailed(w, err)
}

// statusOf is the status of the answer to an error.
func statusOf(err error) int {
	var p *problem
	if errors.As(err, &p) {
		return p.Status
	}
	return http.StatusInternalServerError
}

// readInfo reads what Terraform sends of itself; nil if it sent nothing. Fields of later
// versions are ignored.
func readInfo(w http.ResponseWriter, c *call) (*lockInfo, error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, c.Body, maxBody))
	if err != nil {
		return nil, failed(http.StatusRequestEntityTooLarge, "body", "the body cannot be read, or is longer than %d bytes", maxBody)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	info := &lockInfo{}
	if err := json.Unmarshal(text, info); err != nil {
		return nil, failed(http.StatusBadRequest, "body", "the body is not what Terraform sends: %v", err)
	}
	if info.ID == "" || len(info.ID) > driver.MaxNameBytes || !printable(info.ID) {
		return nil, failed(http.StatusBadRequest, "body", "ID has 1 to %d bytes, of UTF-8 without control characters", driver.MaxNameBytes)
	}
	return info, nil
}

// stateLock locks a state for an apply: in the store, where Go programs and the console see
// it, and then on record.
func (s *Server) stateLock(w http.ResponseWriter, c *call) error {
	name, err := s.stateOf(c, access.State)
	if err != nil {
		return err
	}
	info, err := readInfo(w, c)
	switch {
	case err != nil:
		return err
	case info == nil:
		return failed(http.StatusBadRequest, "body", "send what Terraform sends to lock: an object with an ID")
	}
	if info.Path == "" {
		info.Path = name
	}
	err = s.terraform.lock(c.Context(), name, c.caller.Name, info)
	var busy *fencelock.BusyError
	switch {
	case err == nil:
		return reply(w, health{true})
	case errors.As(err, &busy):
		return replyLocked(w, busyInfo(name, busy))
	case errors.Is(err, fencelock.ErrUnavailable):
		return failed(http.StatusServiceUnavailable, "store", "the store did not answer, so the state is not locked; try again: %s", c.storeError(err))
	case errors.Is(err, fence.ErrStale):
		s.cfg.Logger.Error("a Terraform state cannot be locked", "state", name, "error", err)
		return replyLocked(w, staleInfo(name))
	}
	return s.stateFailed(w, err)
}

// busyInfo describes a holder that is not Terraform, as Terraform expects it.
func busyInfo(name string, busy *fencelock.BusyError) json.RawMessage {
	info := lockInfo{ID: "not-terraform", Operation: "lock", Info: plain.OneLine(busy), Created: time.Now(), Path: name}
	if len(busy.Holders) > 0 {
		h := &busy.Holders[0]
		info.ID, info.Who, info.Created = "token-"+h.Token.String(), h.Record.Owner, info.Created.Add(-h.Age)
	}
	text, err := json.Marshal(info)
	if err != nil {
		panic("serve: " + err.Error()) // it can be encoded
	}
	return text
}

// staleInfo describes why a state cannot be locked with a token of the store. Terraform shows only
// the ID of what it takes for the holder.
func staleInfo(name string) json.RawMessage {
	text, err := json.Marshal(lockInfo{ID: "none (the token of the store is too old: try again; after a move to another store see docs/serve.md, Terraform)",
		Info: "the state was locked with a newer token than the store gives", Path: name, Created: time.Now()})
	if err != nil {
		panic("serve: " + err.Error()) // it can be encoded
	}
	return text
}

// stateUnlock unlocks a state. A caller that unlocks what another user has locked, or that
// does not name the lock as "terraform force-unlock" does not, needs the right to break.
func (s *Server) stateUnlock(w http.ResponseWriter, c *call) error {
	name, err := s.stateOf(c, access.State, access.Break)
	if err != nil {
		return err
	}
	info, err := readInfo(w, c)
	if err != nil {
		return err
	}
	r, err := s.terraform.states.Read(name)
	if err != nil {
		return err
	}
	if r.Lock == nil || info != nil && r.Gave(info.ID, c.caller.Name) { // already, by a call whose answer was lost for one
		return reply(w, health{true})
	}
	if info != nil {
		if err := r.Admits(info.ID); err != nil {
			return s.stateFailed(w, err)
		}
		if r.Lock.User == c.caller.Name {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), 2*s.cfg.Timeout) // a caller that hangs up does not stop it halfway
			defer cancel()
			if err := s.unlocked(ctx, c, name, r.Lock); err != nil {
				return s.stateFailed(w, err)
			}
			return reply(w, health{true})
		}
	}
	return s.forceUnlock(w, c, name, r.Lock)
}

func (s *Server) unlocked(ctx context.Context, c *call, name string, l *tfstate.Lock) error {
	err := s.terraform.unlock(ctx, name, l.ID, c.caller.Name)
	if errors.Is(err, tfstate.ErrNotLocked) {
		return nil
	}
	return err
}

// forceUnlock unlocks for an operator, with a trail.
func (s *Server) forceUnlock(w http.ResponseWriter, c *call, name string, l *tfstate.Lock) error {
	c.about.token, c.about.reason = l.Token, fmt.Sprintf("force-unlock of the Terraform lock %s", l.ID)
	if err := s.allowed(c, access.Break, name); err != nil {
		return err
	}
	entry := audit.Entry{Lock: name, Token: l.Token, Holder: l.User, Reason: c.about.reason}
	return s.withTrail(w, c, entry, func(ctx context.Context) error { return s.unlocked(ctx, c, name, l) })
}
