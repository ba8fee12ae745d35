// SPDX-License-Identifier: Apache-2.0

package httplock_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/httplock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/store/memstore"
)

// newShop lets one request at a time work on an order, on whatever replica.
func newShop(locks *fencelock.Client, pay http.HandlerFunc) (http.Handler, error) {
	order := func(r *http.Request) string { return "orders/" + r.PathValue("id") }
	locked, err := httplock.Middleware(locks, order, &httplock.Options{Wait: 50 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", locked(pay))
	return mux, nil
}

// The second request finds the order locked by another replica. The handler passes its context
// on to what it calls: a guard finds the token there.
func Example() {
	ctx := context.Background()
	store := memstore.New(nil) // in a program: redisstore, etcdstore, ...
	locks, err := fencelock.New(store, &fencelock.Options{Owner: "web-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close(ctx)
	shop, err := newShop(locks, func(w http.ResponseWriter, r *http.Request) {
		m, err := fence.FromContext(r.Context(), "orders/42")
		fmt.Fprint(w, "paid with ", m, ", ", err)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pay := func() {
		w := httptest.NewRecorder()
		shop.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil))
		fmt.Println(w.Code, w.Header().Get("Retry-After"), w.Body)
	}
	pay()
	other, err := fencelock.New(store, &fencelock.Options{Owner: "web-2"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer other.Close(ctx)
	_ = other.Do(ctx, "orders/42", func(context.Context, *fencelock.Lease) error {
		pay()
		return nil
	})
	// Output:
	// 200  paid with token 256 of lock "orders/42", held by web-1, <nil>
	// 504 1 busy: another request held the lock for too long
}
