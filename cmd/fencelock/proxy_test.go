// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"testing"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// proxy is a network before a server that can be cut without notice: what is sent is
// dropped, and connections stay open.
type proxy struct {
	*servers.Proxy
	addr string
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	p, err := servers.NewProxy(to)
	must.OK(t, err)
	t.Cleanup(p.Close)
	return &proxy{p, p.Addr}
}

func (p *proxy) cut() { p.Set(servers.State{DropRequests: true, DropReplies: true}) }

// heal lets everything through again, on new connections.
func (p *proxy) heal() {
	p.Set(servers.State{})
	p.Cut()
}
