// SPDX-License-Identifier: Apache-2.0

// Package httplock takes a lock for each HTTP request and serves the request while the
// lock is held.
//
//	order := func(r *http.Request) string { return "orders/" + r.PathValue("id") }
//	locked, err := httplock.Middleware(client, order, nil)
//	…
//	mux.Handle("POST /orders/{id}/pay", locked(http.HandlerFunc(pay)))
//
// First consider [fencelock.Client.Do] inside the handler: then the handler reads and checks
// the request before it takes the lock, and holds the lock for the part that needs it.
//
// The context of the request carries the lease and ends when the lock is lost or the client goes away,
// so a guard of package fence finds the token there, and a handler that passes the context on stops in time.
//
//	409 Conflict               the lock is busy, and Options.Wait is 0
//	503 Service Unavailable    the store is in its grace period, or does not answer
//	504 Gateway Timeout        the lock was busy for as long as Options.Wait
//	500 Internal Server Error  the lock was lost, and the handler had not answered yet
//
// The handler was not called for 409, 503 and 504, so the client may send the request
// again; Retry-After says when. After a loss the handler has run for a while and the outcome is
// unknown, hence 500. What a handler has begun to answer is left as it is.
//
// # Failures
//
//   - The lock is lost: the context ends. A handler that does not look at its context goes on without
//     the lock, so check the token where it writes.
//   - The handler panics: the lock is given back, and the panic goes on.
//   - The client goes away: the context ends. While the request waits, it leaves the queue.
//   - The client sends its body slowly: the lock is held meanwhile. Set [http.Server.ReadTimeout], or
//     [fencelock.MaxHold] in Options.Lock.
//   - The process dies: the lock is free after the client's TTL.
//   - The unlock is not confirmed: it is repeated in the background, and the answer stays as it is.
//
// What the handler wrote and net/http still buffers is sent after the unlock. A client that has the
// whole of such an answer finds the lock free.
package httplock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/fencelock/fencelock"
)

// DefaultRetryAfter is the Retry-After of an answer if the error does not know a better one.
const DefaultRetryAfter = time.Second

// Options are the settings of Middleware.
type Options struct {
	// Wait is how long a request waits for the lock. If it is 0, the request does not wait
	// for another one that holds the lock.
	Wait time.Duration
	// Lock are options of the locks, such as fencelock.MaxHold.
	Lock []fencelock.LockOption
	// Error answers a request if its lock was not acquired, or was lost before the handler answered.
	// Status returns what the default answers. The default does not show err to the client: it names holders.
	Error func(w http.ResponseWriter, r *http.Request, err error)
}

// Middleware returns a middleware that serves a request while its lock is held. name returns the
// name of the lock, from the path for example; a request without a name is answered with 500. opts may be nil.
func Middleware(c *fencelock.Client, name func(*http.Request) string, opts *Options) (func(http.Handler) http.Handler, error) {
	if opts == nil {
		opts = &Options{}
	}
	if c == nil || name == nil {
		return nil, errors.New("httplock: Middleware needs a client and a function that names the lock of a request")
	}
	if opts.Wait < 0 {
		return nil, fmt.Errorf("httplock: Options.Wait is %v; it must not be negative, and 0 means not to wait", opts.Wait)
	}
	m := &middleware{client: c, name: name, opts: *opts}
	if m.opts.Error == nil {
		m.opts.Error = answer
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}, nil
}

type middleware struct {
	client *fencelock.Client
	name   func(*http.Request) string
	opts   Options
}

// serve takes the lock, calls the handler and gives the lock back.
func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	l, err := m.acquire(r)
	if err != nil {
		m.opts.Error(w, r, err)
		return
	}
	ctx, stop := l.WithContext(r.Context())
	before := w.Header().Clone()
	tracked, begun := track(w)
	panicked := true
	defer func() {
		stop()
		err := l.Unlock(r.Context())
		if errors.Is(err, fencelock.ErrClosed) { // it ended all leases
			err = errors.Join(fencelock.ErrLost, err)
		}
		if errors.Is(err, fencelock.ErrLost) && !panicked && !begun() {
			// A handler that stopped because its context ended, without a word, would be answered for with 200.
			// Headers that it has set, such as Content-Encoding or a cookie, are of the answer that it did not give.
			clear(w.Header())
			maps.Copy(w.Header(), before)
			m.opts.Error(w, r, err)
		}
	}()
	next.ServeHTTP(tracked, r.WithContext(ctx))
	panicked = false
}

func (m *middleware) acquire(r *http.Request) (*fencelock.Lease, error) {
	mu := m.client.Mutex(m.name(r), m.opts.Lock...)
	if m.opts.Wait == 0 {
		return mu.TryLock(r.Context())
	}
	ctx, cancel := context.WithTimeout(r.Context(), m.opts.Wait) // for the lock, not for the work
	defer cancel()
	return mu.Lock(ctx)
}

// Status returns the status that the default answers to an error, and the time for
// Retry-After, 0 if there is none because the handler has run, or cannot.
func Status(err error) (code int, retryAfter time.Duration) {
	var grace *fencelock.GraceError
	var busy *fencelock.BusyError
	switch {
	case errors.Is(err, fencelock.ErrLost):
		return http.StatusInternalServerError, 0
	case errors.As(err, &grace): // before a deadline, which such an error may wrap, too
		return http.StatusServiceUnavailable, max(grace.RetryAfter, DefaultRetryAfter)
	case errors.As(err, &busy):
		return http.StatusConflict, busyFor(busy)
	case errors.Is(err, fencelock.ErrUnavailable), errors.Is(err, fencelock.ErrClosed), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable, DefaultRetryAfter
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, DefaultRetryAfter
	}
	return http.StatusInternalServerError, 0
}

// busyFor is known only of a lock that nobody holds, and that is kept taken for a while.
func busyFor(busy *fencelock.BusyError) time.Duration {
	if len(busy.Holders) == 1 && busy.Holders[0].Kept {
		return max(busy.Holders[0].EndsIn, DefaultRetryAfter)
	}
	return DefaultRetryAfter
}

// answer is the default of Options.Error.
func answer(w http.ResponseWriter, _ *http.Request, err error) {
	code, after := Status(err)
	text := http.StatusText(code)
	switch {
	case errors.Is(err, fencelock.ErrLost):
		text = "the lock of this request was lost; its outcome is unknown"
	case code == http.StatusConflict:
		text = "busy: another request holds the lock"
	case code == http.StatusGatewayTimeout:
		text = "busy: another request held the lock for too long"
	case code == http.StatusServiceUnavailable:
		text = "no lock can be had now"
	}
	if after > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
	}
	http.Error(w, text, code)
}
