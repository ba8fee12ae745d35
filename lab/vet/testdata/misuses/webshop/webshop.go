// SPDX-License-Identifier: Apache-2.0

// Package webshop has the handlers of a shop.
package webshop

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

type shop struct {
	locks *fencelock.Client
}

type basket struct{ Items []string }

func load(ctx context.Context, id string) (*basket, error)   { return &basket{}, nil }
func save(ctx context.Context, id string, b *basket) error   { return nil }
func charge(ctx context.Context, id string, cents int) error { return nil }
func notify(ctx context.Context, id, text string) error      { return nil }
func withTrace(ctx context.Context) context.Context          { return ctx }

// Routes registers the handlers.
func Routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /baskets/{id}", func(w http.ResponseWriter, r *http.Request) {
		c, err := fencelock.New(memstore.New(nil), nil) // misuse: clientperrequest
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		s := shopOf(c)
		defer c.Close(context.WithoutCancel(r.Context()))
		s.add(w, r)
	})
}

func shopOf(c *fencelock.Client) *shop { return &shop{locks: c} }

func (s *shop) add(w http.ResponseWriter, r *http.Request) {
	ctx := withTrace(r.Context())
	id := r.PathValue("id")
	l, err := s.locks.Mutex("baskets/" + id).Lock(ctx) // misuse: leaseleak
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	held, stop := l.WithContext(ctx)
	defer stop()
	b, err := load(held, id)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	var item string
	if json.NewDecoder(r.Body).Decode(&item) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	b.Items = append(b.Items, item)
	if err := save(held, id, b); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
	if err := l.Unlock(ctx); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (s *shop) checkout(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	wait, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()
	err := s.locks.Do(wait, "baskets/"+id, func(ctx context.Context, l *fencelock.Lease) error {
		b, err := load(ctx, id)
		if err != nil {
			return err
		}
		if err := charge(r.Context(), id, 100*len(b.Items)); err != nil { // misuse: outerctx
			return err
		}
		go notify(context.WithoutCancel(r.Context()), id, "thank you")
		return save(ctx, id, &basket{})
	})
	if err != nil {
		http.Error(w, fmt.Sprint(err), http.StatusConflict)
	}
}

// merge locks the basket that its caller holds.
func (s *shop) merge(ctx context.Context, id, other string) error {
	mu := s.locks.Mutex("baskets/" + id)
	return mu.Do(ctx, func(inner context.Context, _ *fencelock.Lease) error {
		b, err := load(inner, other)
		if err != nil {
			return err
		}
		l, err := mu.Lock(ctx) // misuse: selflock
		if err != nil {
			return err
		}
		defer func() { _ = l.Unlock(inner) }()
		return save(inner, id, b)
	})
}
