// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
)

// refusalHeader distinguishes a refusal by a guard from the same status with another
// meaning.
const refusalHeader = "Fencing-Refusal"

// DefaultRemember is how many locks a Handler remembers.
const DefaultRemember = 10_000

// Options are the options of a Handler; nil and zero mean the defaults.
type Options struct {
	// Remember is how many locks the handler remembers the newest token of.
	// Default DefaultRemember. Dropping one lets late requests through to the
	// guard of the storage, no more.
	Remember int
}

// Handler returns a middleware. lock returns which lock a request must hold, from
// its path for example. A request with a token of that lock goes on to next, with
// the mark in its context; others are refused, see the package comment. It does
// not guard: next must hand the context on to a guard at the storage.
func Handler(lock func(*http.Request) string, next http.Handler, opts *Options) (http.Handler, error) {
	if opts == nil {
		opts = &Options{}
	}
	if lock == nil || next == nil {
		return nil, errors.New("httpfence: Handler needs to know the lock of a request and the handler behind it")
	}
	if opts.Remember < 0 {
		return nil, fmt.Errorf("httpfence: Options.Remember is %d; it is a number of locks and must not be negative", opts.Remember)
	}
	seen := &newest{marks: map[string]fence.Mark{}, most: opts.Remember}
	if seen.most == 0 {
		seen.most = DefaultRemember
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m, err := admit(seen, lock(r), r.Header.Values(Header))
		if err != nil {
			Refuse(w, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(fence.With(r.Context(), m)))
	}), nil
}

// admit reads the header and refuses what is plainly wrong or late.
func admit(seen *newest, lock string, headers []string) (fence.Mark, error) {
	if len(headers) != 1 {
		return fence.Mark{}, fmt.Errorf("%w: %d headers %s, want one for lock %q", fence.ErrNoToken, len(headers), Header, lock)
	}
	m, err := Parse(headers[0])
	if err != nil {
		return m, err
	}
	if m.Lock != lock {
		return m, fmt.Errorf("%w: the resource belongs to lock %q, and this is %v", fence.ErrWrongLock, lock, m)
	}
	return m, seen.admit(m)
}

// newest is the newest mark seen of some locks.
type newest struct {
	mu    sync.Mutex
	marks map[string]fence.Mark
	most  int
}

// admit refuses a mark that is older than the newest, and notes a newer one.

func (s *newest) admit(m fence.Mark) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept, known := s.marks[m.Lock]
	if err := fence.Check(kept, m); err != nil {
		return err
	}
	if !known && len(s.marks) >= s.most {
		for any := range s.marks {
			delete(s.marks, any)
			break
		}
	}
	s.marks[m.Lock] = m
	return nil
}

// Refuse answers a request with the refusal of a guard and returns true. For any
// other error, or none, it does nothing and returns false.
func Refuse(w http.ResponseWriter, err error) bool {
	var stale *fence.StaleError
	code, status := "", 0
	switch {
	case errors.Is(err, fence.ErrStale):
		code, status = "stale", http.StatusPreconditionFailed
		if errors.As(err, &stale) && stale.Newer.Token > 0 {
			newer := stale.Newer
			newer.Lock = stale.Given.Lock
			w.Header().Set(Header, Format(newer))
		}
	case errors.Is(err, fence.ErrNoToken):
		code, status = "no-token", http.StatusPreconditionRequired
	case errors.Is(err, fence.ErrWrongLock):
		code, status = "wrong-lock", http.StatusConflict
	default:
		return false
	}
	w.Header().Set(refusalHeader, code)
	http.Error(w, err.Error(), status)
	return true
}

// Header is the name of the header that carries a mark:
//
//	Fencing-Token: orders%2F42;768;ann%40host:7
//
// The name of the lock, the token as a decimal number, and the holder, which may
// be left out. Name and holder are escaped with % as in the path of a URL.
const Header = "Fencing-Token"

// Format returns the mark as the header has it.
func Format(m fence.Mark) string {
	text := escape(m.Lock) + ";" + m.Token.String()
	if m.Holder != "" {
		text += ";" + escape(m.Holder)
	}
	return text
}

// escape leaves no separator and nothing that a header cannot carry.
func escape(s string) string { return strings.ReplaceAll(url.PathEscape(s), ";", "%3B") }

// Parse reads what Format wrote. Its errors wrap fence.ErrNoToken.
func Parse(text string) (fence.Mark, error) {
	bad := func(why any) (fence.Mark, error) {
		return fence.Mark{}, fmt.Errorf("%w: the header %s is %q, want lock;token: %v", fence.ErrNoToken, Header, text, why)
	}
	fields := strings.Split(text, ";")
	if len(fields) < 2 || len(fields) > 3 {
		return bad("two or three fields")
	}
	lock, err := url.PathUnescape(fields[0])
	if err != nil || lock == "" {
		return bad("the lock has no name that can be read")
	}
	token, err := strconv.ParseUint(fields[1], 10, 63)
	if err != nil || token == 0 {
		return bad("a token is a positive number of 63 bits")
	}
	m := fence.Mark{Lock: lock, Token: fencelock.Token(token)}
	if len(fields) == 3 {
		if m.Holder, err = url.PathUnescape(fields[2]); err != nil {
			return bad(err)
		}
	}
	return m, nil
}
