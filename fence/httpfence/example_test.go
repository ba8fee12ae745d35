// SPDX-License-Identifier: Apache-2.0

package httpfence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/httpfence"
	"github.com/fencelock/fencelock/store/memstore"
)

// Shelf is the storage of the service, with a guard: here a mutex, in earnest a
// database behind sqlfence, for example.
type Shelf struct {
	mu   sync.Mutex
	text string
	kept fence.Mark
}

// Put finds the token in the context of the request, where Handler has put it.
func (s *Shelf) Put(ctx context.Context, text string) error {
	given, err := fence.FromContext(ctx, "shelf")
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := fence.Check(s.kept, given); err != nil {
		return err
	}
	s.kept, s.text = given, text
	return nil
}

// newShelfService answers refusals of the guard so that the client knows them again.
func newShelfService(shelf *Shelf) (http.Handler, error) {
	put := func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err == nil {
			err = shelf.Put(r.Context(), string(text))
		}
		if err != nil && !httpfence.Refuse(w, err) {
			http.Error(w, "it did not work", http.StatusInternalServerError)
		}
	}
	lockOf := func(*http.Request) string { return "shelf" } // from the path, as a rule
	return httpfence.Handler(lockOf, http.HandlerFunc(put), nil)
}

// put sends the token of the lease that ctx carries.
func put(ctx context.Context, url, text string) error {
	client := &http.Client{Transport: &httpfence.Transport{Lock: func(*http.Request) string { return "shelf" }}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return err // outcome unknown
	}
	defer resp.Body.Close()
	if err := httpfence.Error(resp); err != nil {
		return err // refused, nothing was changed
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status) // outcome unknown
	}
	return nil
}

func Example() {
	ctx := context.Background()
	var shelf Shelf
	handler, err := newShelfService(&shelf)
	if err != nil {
		fmt.Println(err)
		return
	}
	service := httptest.NewServer(handler)
	defer service.Close()
	locks, err := fencelock.New(memstore.New(nil), &fencelock.Options{Owner: "ann"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close(ctx)
	err = locks.Do(ctx, "shelf", func(ctx context.Context, _ *fencelock.Lease) error {
		return put(ctx, service.URL, "a book")
	})
	fmt.Println("on the shelf:", shelf.text, err)

	late := fence.With(ctx, fence.Mark{Lock: "shelf", Token: 1})
	fmt.Println(put(late, service.URL, "dust"))
	fmt.Println(errors.Is(put(ctx, service.URL, "dust"), fence.ErrNoToken))
	// Output:
	// on the shelf: a book <nil>
	// fence: stale token 1 of lock "shelf": a newer token 256 was seen, from ann
	// true
}
