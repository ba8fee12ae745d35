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
	"regexp"
	"strings"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/agent"
	"github.com/fencelock/fencelock/driver"
)

// urlOfStore finds the store's URL.
func (a *app) urlOfStore() (string, error) {
	chosen, err := a.choice()
	return chosen.url, err
}

// choice finds the store: flag, environment, configuration file.
func (a *app) choice() (storeChoice, error) {
	if a.storeURL != "" {
		return storeChoice{a.storeURL, "--store"}, nil
	}
	if url := os.Getenv("FENCELOCK_STORE"); url != "" {
		return storeChoice{url, "FENCELOCK_STORE"}, nil
	}
	file, chosen := os.Getenv("FENCELOCK_CONFIG"), true
	if file == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return storeChoice{}, nil // no such directory, so no file
		}
		file, chosen = filepath.Join(dir, "fencelock", "config"), false
	}
	url, err := a.readConfig(file)
	if errors.Is(err, fs.ErrNotExist) && !chosen {
		return storeChoice{}, nil
	}
	return storeChoice{url, file}, err
}

// readConfig reads lines "key = value"; # begins a comment. The only key is
// store: everything else is a parameter of its URL.
func (a *app) readConfig(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", withCode(exitUsage, err)
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
	if info, err := f.Stat(); err == nil && info.Mode().Perm()&0o077 != 0 && hasPassword.MatchString(store) && !a.warned {
		a.warned = true
		a.note("%s has a password in it, and other users may read it; chmod 600 it", file)
	}
	return store, lines.Err()
}

// hasPassword matches a URL with a password.
var hasPassword = regexp.MustCompile(`^[^/]*://[^/?#@]*:[^/?#@]+@`)

// connection is an open store with a client on it.
type connection struct {
	*opened
	client *fencelock.Client
}

// connect opens the store that the user chose. Without options no lock is to be taken.
func (a *app) connect(ctx context.Context, opts *fencelock.Options) (*connection, error) {
	if opts == nil {
		return a.connectTo(ctx, a.openToRead, &fencelock.Options{})
	}
	return a.connectTo(ctx, a.open, opts)
}

func (a *app) connectTo(ctx context.Context, open func(ctx context.Context, url, namespace string) (*opened, error), opts *fencelock.Options) (*connection, error) {
	url, err := a.urlOfStore()
	if err != nil {
		return nil, err
	}
	store, err := open(ctx, url, a.ns)
	if err != nil {
		return nil, err
	}
	opts.CallTimeout = a.callTimeout(opts.TTL)
	client, err := fencelock.New(store, opts)
	if most := store.Caps().MaxTTL; err != nil && most > 0 && opts.TTL > most && store.Caps().Engine != "memcached" {
		err = fmt.Errorf("%w; max_ttl=%v in the URL of the store allows it", err, opts.TTL)
	}
	if err != nil {
		return nil, errors.Join(withCode(exitUsage, err), store.Close())
	}
	return &connection{opened: store, client: client}, nil
}

// callTimeout is how long one call may take. While a lock is held a renewal that hangs
// must leave time for another one.
func (a *app) callTimeout(ttl time.Duration) time.Duration {
	if ttl > 0 {
		return min(a.timeout, ttl/3)
	}
	return a.timeout
}

// openToRead opens a store in which locks are seen and broken, but none is taken: what
// makes locks unsafe is a warning then.
func (a *app) openToRead(ctx context.Context, url, namespace string) (*opened, error) {
	return a.dial(ctx, url, namespace, func(reason error) { a.note("%v", reason) })
}

// open opens a store in which locks can be taken.
func (a *app) open(ctx context.Context, url, namespace string) (*opened, error) {
	return a.dial(ctx, url, namespace, nil)
}

// dial opens a store within the time that one answer may take. With refused it also
// opens one in which no lock can be taken.
func (a *app) dial(ctx context.Context, url, namespace string, refused func(error)) (*opened, error) {
	if a.timeout <= 0 {
		return nil, usage("--timeout %v: it takes a positive time", a.timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	store, err := openStore(ctx, url, namespace, driver.OpenOptions{Refused: refused, Warn: func(f driver.Finding) {
		if text, show := warning(f); show {
			a.note("%s", text)
		}
	}})
	var e *exitError
	switch {
	case err == nil || errors.As(err, &e) && e.sig == 0:
		return store, err
	case context.Cause(ctx) != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return nil, context.Cause(ctx)
	case errors.Is(err, driver.ErrUnavailable), errors.Is(err, driver.ErrUnknown), ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", fencelock.ErrUnavailable, err)
	}
	return nil, withCode(exitUsage, err) // a wrong URL or password
}

// close gives everything back, within the time that one answer may take.
func (a *app) close(c *connection) { a.closeWithin(c, a.timeout) }

func (a *app) closeWithin(c *connection, d time.Duration) {
	a.closeClient(c, d)
	if err := c.opened.Close(); err != nil {
		a.note("closing the store: %v", err)
	}
}

// closeClient leaves the store open, for other clients whose leases go on after the process.
func (a *app) closeClient(c *connection, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	if err := c.client.Close(ctx); err != nil {
		a.note("%v", err)
	}
}

// storeChoice is the URL of the store and where the user wrote it.
type storeChoice struct{ url, source string }

// nextStep is what the user can do about an error of the store, or "".
func (a *app) nextStep(err error) string {
	var answered *agent.ReplyError // has the text of the agent's error only
	if exitCode(err) != exitUnavailable || !errors.Is(err, fencelock.ErrUnavailable) && !errors.As(err, &answered) {
		return ""
	}
	chosen, found := a.choice()
	if found != nil {
		return ""
	}
	return nextStepFor(err.Error(), chosen)
}

// nextStepFor reads the texts of errors: the libraries of some servers return no others.
func nextStepFor(text string, chosen storeChoice) string {
	var step string
	switch {
	case strings.Contains(text, "connection refused"):
		step = "no server accepts connections there; start it, or check host and port"
	case strings.Contains(text, "no such host"):
		step = "no server has that name; check the host"
	default:
		return ""
	}
	return fmt.Sprintf("%s. The store is %s, from %s; --store URL names another (fencelock help stores)", step, chosen.shown(), chosen.source)
}

// shown is the URL without what could be a password. The error has the address.
func (c storeChoice) shown() string {
	base, _, _ := strings.Cut(c.url, "?")
	if strings.Contains(c.url, "@") {
		base, _, _ = strings.Cut(base, "://")
		base += "://…"
	}
	return base
}
