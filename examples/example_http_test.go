// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/memstore"
)

// statusOf is what a handler answers that did not get its lock. It sets Retry-After where the
// time is known. A deadline comes last: the other errors may wrap it too.
func statusOf(w http.ResponseWriter, err error) int {
	var grace *fencelock.GraceError
	switch {
	case errors.As(err, &grace): // no new locks for now, of any name
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(grace.RetryAfter.Seconds()))))
		return http.StatusServiceUnavailable
	case errors.Is(err, fencelock.ErrBusy): // another request has it
		return http.StatusConflict
	case errors.Is(err, fencelock.ErrUnavailable): // the store does not answer
		return http.StatusServiceUnavailable
	case errors.Is(err, context.DeadlineExceeded): // another request had it for too long
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// pay is a handler that charges an order under its lock. POST waits for another request for a
// moment, and PUT, whose caller repeats it anyway, does not.
func pay(locks *fencelock.Client, charge func(ctx context.Context, l *fencelock.Lease) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		mu := locks.Mutex("orders/" + r.PathValue("id"))
		lock := mu.Lock
		if r.Method == http.MethodPut {
			lock = mu.TryLock
		}
		wait, cancel := context.WithTimeout(r.Context(), 50*time.Millisecond) // for the lock, not for the work
		defer cancel()
		l, err := lock(wait)
		if err != nil {
			http.Error(w, err.Error(), statusOf(w, err))
			return
		}
		defer l.Unlock(r.Context()) // the charge is done, or it failed, whatever this says
		held, stop := l.WithContext(r.Context())
		defer stop()
		if err := charge(held, l); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

// The same two requests while the order is free, while another process charges it, and after the
// store lost its data.
func Example_http() {
	ctx := context.Background()
	charge := func(context.Context, *fencelock.Lease) error { return nil } // in a program: with l.Token
	request := func(store driver.Store, what string) {
		mux := http.NewServeMux()
		mux.HandleFunc("/orders/{id}", pay(process(store, "web-1"), charge))
		for _, method := range []string{http.MethodPut, http.MethodPost} {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest(method, "/orders/42", nil))
			after := ""
			if w.Header().Get("Retry-After") != "" {
				after = " with Retry-After"
			}
			fmt.Printf("%s %s %d%s\n", what, method, w.Code, after)
		}
	}
	store := memstore.New(&memstore.Options{Grace: true, MaxTTL: time.Minute})
	request(store, "free:")
	l, err := process(store, "web-2").Mutex("orders/42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	request(store, "held:")
	_ = l.Unlock(ctx)
	store.Reset()
	request(store, "grace period:")
	// Output:
	// free: PUT 200
	// free: POST 200
	// held: PUT 409
	// held: POST 504
	// grace period: PUT 503 with Retry-After
	// grace period: POST 503 with Retry-After
}
