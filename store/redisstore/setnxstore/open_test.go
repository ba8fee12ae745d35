// SPDX-License-Identifier: Apache-2.0

package setnxstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/storetest"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/fencelock/fencelock/store/redisstore/setnxstore"
)

// TestOpen: a URL with one host is New, one with several is NewRedlock, and the store owns the clients.
func TestOpen(t *testing.T) {
	t.Parallel()
	all := startThree(t)
	three := all[0].Addr + "," + all[1].Addr + "," + all[2].Addr
	for url, on := range map[string]int{"setnx://" + all[0].Addr + "?prefix=one:": 1, "setnx://" + three + "/0?prefix=three:": 2} {
		store, err := fencelock.OpenStore(t.Context(), url)
		must.OK(t, err)
		locks, err := fencelock.New(store, nil)
		must.OK(t, err)
		_, prefix, _ := strings.Cut(url, "prefix=")
		must.OK(t, locks.Do(t.Context(), "x", func(context.Context, *fencelock.Lease) error {
			if has := strings.Count(strings.Join(all.values(t, prefix+"x"), " "), ":"); has < on {
				t.Errorf("%s: %d servers have the lock, want %d", url, has, on)
			}
			return nil
		}))
		must.OK(t, locks.Close(t.Context()))
		must.OK(t, store.Close())
		if _, err := store.Inspect(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("%s: the client is open after Close: %v", url, err)
		}
	}
}

// TestOpenRefusals: errors name what to change, and show no password.
func TestOpenRefusals(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	storetest.Refused(t, func(url string) error { _, err := setnxstore.Open(ctx, url, nil); return err }, map[string]string{
		"setnx://u:hunter2@127.0.0.1:1":   "open 127.0.0.1:1",
		"redis://u:hunter2@h":             "must begin with setnx://",
		"setnx://u:hunter2@h?namespace=x": "does nothing in this store",
		"setnx://u:hunter2@h?prefix=%25s": "use a prefix without one",
		"setnx://u:hunter2@a,b?channel=c": "the parameter channel is for one server",
	})
}

// TestOpenWithKeyInOptions: the key of Options is used as New uses it, and a prefix in the URL that differs is refused.
// Ignored, it would make the process lock other keys than its peers, and exclude none of them.
func TestOpenWithKeyInOptions(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, tt := range []struct{ parameters, key, wantKey, wantErr string }{
		{key: "%s:lock", wantKey: "x:lock"},
		{key: "a:%s", wantKey: "a:x"},
		{parameters: "?prefix=b:", key: "b:%s", wantKey: "b:x"},
		{parameters: "?prefix=c:", key: "%s", wantErr: "the parameter prefix in the URL and Options.Key differ"},
		{parameters: "?prefix=d:", key: "e:%s", wantErr: "the parameter prefix in the URL and Options.Key differ"},
		{parameters: "?prefix=f:", key: "%s:lock", wantErr: "the parameter prefix in the URL and Options.Key differ"},
		{parameters: "?prefix=", key: "g:%s", wantErr: "the parameter prefix in the URL and Options.Key differ"},
		{key: "h", wantErr: "Options.Key must have one %s"},
		{key: "%d%s", wantErr: "Options.Key must have one %s"},
	} {
		store, err := setnxstore.Open(t.Context(), "setnx://"+server.Addr+tt.parameters, &setnxstore.Options{Key: tt.key})
		if tt.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("%q and %s: %v, want %q", tt.key, tt.parameters, err, tt.wantErr)
			}
			continue
		}
		must.OK(t, err)
		locks, err := fencelock.New(store, nil)
		must.OK(t, err)
		must.OK(t, locks.Do(t.Context(), "x", func(context.Context, *fencelock.Lease) error {
			if server.Do("EXISTS", tt.wantKey).Val() != int64(1) {
				t.Errorf("%q and %s: the server has no key %s", tt.key, tt.parameters, tt.wantKey)
			}
			return nil
		}))
		must.OK(t, locks.Close(t.Context()))
		must.OK(t, store.Close())
	}
}
