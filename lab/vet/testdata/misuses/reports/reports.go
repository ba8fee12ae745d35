// SPDX-License-Identifier: Apache-2.0

// Package reports renders reports in the background.
package reports

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/fencelock/fencelock"
)

type run struct {
	id    string
	lease *fencelock.Lease
	done  chan struct{}
}

type Renderer struct {
	locks *fencelock.Client
	dir   string
	mu    sync.Mutex
	runs  map[string]*run
}

func render(ctx context.Context, path string) error { return nil }

// withReport is the team's own wrapper.
func (r *Renderer) withReport(ctx context.Context, id string, fn func(context.Context, *fencelock.Lease) error) error {
	return r.locks.Mutex("reports/"+id, fencelock.Reason("render")).Do(ctx, fn)
}

// lockReport leaves the unlock to its caller.
func (r *Renderer) lockReport(ctx context.Context, id string) (*fencelock.Lease, error) {
	l, err := r.locks.Mutex("reports/" + id).Lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("report %s: %w", id, err)
	}
	return l, nil
}

// Render uses the wrapper with the outer context.
func (r *Renderer) Render(ctx context.Context, id string) error {
	path := filepath.Join(r.dir, id)
	return r.withReport(ctx, id, func(reportCtx context.Context, l *fencelock.Lease) error {
		if err := render(ctx, path+".tmp"); err != nil { // misuse: outerctx
			return err
		}
		return os.Rename(path+".tmp", path)
	})
}

// Replace forgets the lease of the wrapper when the file is missing.
func (r *Renderer) Replace(ctx context.Context, id string) error {
	l, err := r.lockReport(ctx, id) // misuse: leaseleak
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(r.dir, id)); err != nil {
		return err
	}
	return errors.Join(render(l.Context(), filepath.Join(r.dir, id)), l.Unlock(ctx))
}

// Begin keeps the lease of a run; Finish only unlocks it.
func (r *Renderer) Begin(ctx context.Context, id string) error {
	lease, err := r.locks.Mutex("reports/" + id).Lock(ctx)
	if err != nil {
		return err
	}
	started := &run{id: id, done: make(chan struct{})}
	started.lease = lease // misuse: leasectx
	r.mu.Lock()
	r.runs[id] = started
	r.mu.Unlock()
	go func() {
		defer close(started.done)
		_ = render(ctx, filepath.Join(r.dir, id))
	}()
	return nil
}

// Finish waits for a run.
func (r *Renderer) Finish(ctx context.Context, id string) error {
	r.mu.Lock()
	started := r.runs[id]
	delete(r.runs, id)
	r.mu.Unlock()
	<-started.done
	if err := started.lease.Unlock(ctx); err != nil {
		return err
	}
	return nil
}

// All renders in parallel and waits, with the wrong context.
func (r *Renderer) All(ctx context.Context, ids []string) error {
	return r.locks.Do(ctx, "reports", func(all context.Context, _ *fencelock.Lease) error {
		var wg sync.WaitGroup
		errs := make([]error, len(ids))
		for i, id := range ids {
			wg.Go(func() { errs[i] = render(ctx, id) }) // misuse: outerctx
		}
		wg.Wait()
		return errors.Join(append(errs, all.Err())...)
	})
}
