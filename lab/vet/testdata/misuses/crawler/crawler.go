// SPDX-License-Identifier: Apache-2.0

// Package crawler fetches pages, a host at a time.
package crawler

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/url"
	"time"

	"github.com/fencelock/fencelock"
)

type Crawler struct {
	hosts  *fencelock.Client
	client *http.Client
}

func (c *Crawler) get(ctx context.Context, u string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, err
	}
	res, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}

// Fetch makes the request with the outer context.
func (c *Crawler) Fetch(ctx context.Context, u *url.URL) (page []byte, err error) {
	err = c.hosts.Do(ctx, u.Host, func(host context.Context, l *fencelock.Lease) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil) // misuse: outerctx
		if err != nil {
			return err
		}
		res, err := c.client.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		page, err = io.ReadAll(io.LimitReader(res.Body, 1<<20))
		return errors.Join(err, host.Err())
	})
	return page, err
}

// Polite holds the host for a while after each page.
func (c *Crawler) Polite(ctx context.Context, u *url.URL) ([]byte, error) {
	l, err := c.hosts.Mutex(u.Host).Lock(ctx)
	if err != nil {
		return nil, err
	}
	page, err := c.get(ctx, u.String())
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	l.Unlock(ctx) // misuse: unlockerr
	return page, err
}

// Retry locks again in the loop without an unlock.
func (c *Crawler) Retry(ctx context.Context, u *url.URL) ([]byte, error) {
	for try := 0; ; try++ {
		lease, err := c.hosts.Mutex(u.Host).Lock(ctx) // misuse: leaseleak
		if err != nil {
			return nil, err
		}
		page, err := c.get(lease.Context(), u.String())
		if err != nil && try < 3 {
			log.Printf("try %d of %s with token %d: %v", try, u, lease.Token(), err)
			continue
		}
		return page, errors.Join(err, lease.Unlock(ctx))
	}
}

// Robots reads robots.txt of a host that it holds already.
func (c *Crawler) Robots(ctx context.Context, u *url.URL) error {
	return c.hosts.Do(ctx, u.Host, func(inner context.Context, l *fencelock.Lease) error {
		robots, err := c.hosts.Mutex(u.Host).Lock(ctx) // misuse: selflock
		if err != nil {
			return err
		}
		_, err = c.get(inner, "https://"+u.Host+"/robots.txt")
		return errors.Join(err, robots.Unlock(inner))
	})
}

// Depth is right.
func (c *Crawler) Depth(ctx context.Context, u *url.URL, n int) error {
	return c.hosts.Do(ctx, u.Host, func(ctx context.Context, l *fencelock.Lease) error {
		if n == 0 {
			return nil
		}
		if _, err := c.get(ctx, u.String()); err != nil {
			return err
		}
		return c.Depth(ctx, u, n-1)
	})
}
