// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// apiLease is a lease as the lock API shows it.
type apiLease struct {
	ID        string `json:"id"`
	Lock      string `json:"lock"`
	State     string `json:"state"`
	Token     string `json:"token"`
	TrustedMS int64  `json:"trusted_ms"`
	Moved     bool   `json:"moved"`
	Elsewhere bool   `json:"elsewhere"`
	Why       string `json:"why"`
}

// apiClient is the least that a client of the lock API needs. It has one connection, so that it is known
// which server it talks to.
type apiClient struct {
	url, token, session string
	ttl                 time.Duration
	carried             bool // leases survive their server
	web                 *http.Client
	from                atomic.Value // its address
}

func newAPIClient(url, token string, ttl time.Duration) *apiClient {
	c := &apiClient{url: url, token: token, ttl: ttl}
	c.from.Store("")
	var d net.Dialer
	c.web = &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, addr)
		if err == nil {
			c.from.Store(conn.LocalAddr().String())
		}
		return conn, err
	}}}
	return c
}

// call makes a call, once.
func (c *apiClient) call(path string, body map[string]any, v any) error {
	body["session"] = c.session
	if c.session == "" {
		delete(body, "session")
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.ttl/3)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", c.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.web.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, text)
	}
	return json.Unmarshal(text, v)
}

// insist repeats a call until it is answered, or for longer than any fault lasts.
func (c *apiClient) insist(path string, body map[string]any, v any) (err error) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = c.call(path, body, v); err == nil {
			return nil
		}
	}
	return err
}

// open makes the session.
func (c *apiClient) open() error {
	var made struct {
		Session string
		Carried bool
	}
	err := c.insist("/v1/session", map[string]any{"ttl_ms": c.ttl.Milliseconds()}, &made)
	c.session, c.carried = made.Session, made.Carried
	return err
}

// lock tries a lock until it is free.
func (c *apiClient) lock(id, lock string) (l apiLease, err error) {
	for end := time.Now().Add(patience); l.State != "held" && time.Now().Before(end) && err == nil; {
		err = c.insist("/v1/acquire", map[string]any{"id": id, "lock": lock, "wait_ms": c.ttl.Milliseconds() / 4}, &l)
	}
	if err == nil && l.State != "held" {
		err = fmt.Errorf("%s is %s after %v", lock, l.State, patience)
	}
	return l, err
}

func (l *apiLease) named() map[string]any {
	return map[string]any{"id": l.ID, "lock": l.Lock, "token": l.Token, "moved": l.Moved}
}

// renew renews until the trusted time is over; it is lost then. A server that does not reach the store loses this client
// to another one, over a new connection.
func (c *apiClient) renew(l *apiLease, trusted time.Time) (apiLease, time.Time) {
	for {
		var answer struct{ Leases []apiLease }
		sent := time.Now()
		err := c.call("/v1/renew", map[string]any{"leases": []any{l.named()}}, &answer)
		if err == nil && len(answer.Leases) == 1 {
			got := answer.Leases[0]
			if trusted = sent.Add(time.Duration(got.TrustedMS) * time.Millisecond); !got.Elsewhere {
				return got, trusted
			}
			l = &got
		}
		c.web.CloseIdleConnections()
		if time.Now().After(trusted) {
			return apiLease{State: "lost", Why: fmt.Sprint("not renewed in time: ", err)}, trusted
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// leaseOutlivesItsServer: a server that ends by a signal leaves its leases in the store, and the next one continues
// them with their tokens.
func leaseOutlivesItsServer(t *testing.T, store string) {
	t.Helper()
	users := filepath.Join(t.TempDir(), "users.json")
	token := strings.TrimSpace(fencelockCLI(t, store, "serve", "token", "ann", "--may", "take", "--users", users).want(0).out.String())
	c := newAPIClient("", token, 10*time.Second)
	var held apiLease
	for range 2 {
		p, url := servingAt(t, store, "--users", users)
		c.url = url
		if held.State == "" {
			must.OK(t, c.open())
			l, err := c.lock("1", "outlives")
			must.OK(t, err)
			held = l
			if !c.carried {
				t.Error("the server answers that it does not carry leases")
			}
		} else if l, _ := c.renew(&held, time.Now()); l.State != "held" || l.Token != held.Token {
			t.Errorf("after the end of its server the lease is %+v; want %+v", l, held)
		}
		must.OK(t, p.cmd.Process.Signal(syscall.SIGTERM))
		p.end()
	}
}
