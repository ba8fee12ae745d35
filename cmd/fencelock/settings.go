// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// urlOfStore finds the store's URL: flag, environment, configuration file.
func (a *app) urlOfStore() (string, error) {
	if a.storeURL != "" {
		return a.storeURL, nil
	}
	if url := os.Getenv("FENCELOCK_STORE"); url != "" {
		return url, nil
	}
	file, chosen := os.Getenv("FENCELOCK_CONFIG"), true
	if file == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return "", nil // there is none
		}
		file, chosen = filepath.Join(dir, "fencelock", "config"), false
	}
	url, err := readConfig(file)
	if errors.Is(err, fs.ErrNotExist) && !chosen {
		return "", nil
	}
	return url, err
}

// readConfig reads lines "key = value"; # begins a comment. The only key is
// store: everything else is a parameter of its URL.
func readConfig(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", &failure{exitUsage, err}
	}
	defer f.Close()
	store := ""
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.TrimSpace(key) != "store" {
			return "", usage("%s:%d: expected a line \"store = URL\"", file, n)
		}
		store = strings.TrimSpace(value)
	}
	return store, lines.Err()
}

// connection is an open store with a client on it.
type connection struct {
	*opened
	client *fencelock.Client
}

// connect opens the store that the user chose.
func (a *app) connect(ctx context.Context, opts *fencelock.Options) (*connection, error) {
	url, err := a.urlOfStore()
	if err != nil {
		return nil, err
	}
	store, err := a.open(ctx, url, a.ns)
	if err != nil {
		return nil, err
	}
	if opts == nil {
		opts = &fencelock.Options{CallTimeout: a.timeout}
	}
	client, err := fencelock.New(store.Store, opts)
	if err != nil {
		return nil, errors.Join(&failure{exitUsage, err}, store.close())
	}
	return &connection{opened: store, client: client}, nil
}

// open opens a store within the time that one answer may take.
func (a *app) open(ctx context.Context, url, namespace string) (*opened, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	store, err := openStore(ctx, url, namespace, func(text string) { a.note("%s", text) })
	var f *failure
	switch {
	case err == nil || errors.As(err, &f):
		return store, err
	case context.Cause(ctx) != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return nil, context.Cause(ctx)
	case errors.Is(err, driver.ErrUnavailable), errors.Is(err, driver.ErrUnknown), ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", fencelock.ErrUnavailable, err)
	}
	return nil, &failure{exitUsage, err} // a wrong URL or password
}

// close gives everything back, within the time that one answer may take.
func (a *app) close(c *connection) { a.closeWithin(c, a.timeout) }

func (a *app) closeWithin(c *connection, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	if err := c.client.Close(ctx); err != nil {
		a.note("%v", err)
	}
	if err := c.opened.close(); err != nil {
		a.note("closing the store: %v", err)
	}
}
