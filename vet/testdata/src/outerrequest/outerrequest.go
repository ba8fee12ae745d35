// SPDX-License-Identifier: Apache-2.0

// Package outerrequest has handlers that use the context of their request under a lock.
package outerrequest

import (
	"context"
	"net/http"

	"github.com/fencelock/fencelock"
)

var locks *fencelock.Client

func save(ctx context.Context, id string) error  { return nil }
func withID(ctx context.Context) context.Context { return ctx }

func request(w http.ResponseWriter, r *http.Request) {
	_ = locks.Do(r.Context(), "a", func(ctx context.Context, l *fencelock.Lease) error {
		return save(r.Context(), "1") // want `r.Context\(\) does not end when the lock is lost: use ctx`
	})
}

func requestInAVariable(w http.ResponseWriter, r *http.Request) {
	ctx := withID(r.Context())
	_ = locks.Do(ctx, "a", func(held context.Context, l *fencelock.Lease) error {
		return save(r.Context(), "1") // want `r.Context\(\) does not end`
	})
}

func fine(w http.ResponseWriter, r *http.Request) {
	_ = locks.Do(r.Context(), "a", func(ctx context.Context, l *fencelock.Lease) error {
		return save(ctx, r.PathValue("id"))
	})
}
