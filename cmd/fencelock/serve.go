// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/fencelock/fencelock/cmd/fencelock/internal/audit"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/serve"
	"github.com/spf13/cobra"
)

// serveFlags are where and how to serve.
type serveFlags struct {
	listen string
	every  time.Duration
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Show locks in a browser, and over HTTP to programs",
		Long: `Serve a page that shows who holds what, who waits for whom, deadlocks, and what the store
promises, and the same as an API for programs: http://ADDRESS/openapi.yaml describes it.

The server polls the store once for all viewers, and keeps nothing that locks depend on:
stop it at any time. It listens on a loopback address only, where every user of the
machine can see all locks of the namespace.

It ends with ctrl-C. The exit code is 64 if it cannot listen, and 69 if the store does not
answer at the start; later /readyz reports it, and the server goes on.`,
		Example: `  fencelock serve                                # open http://127.0.0.1:7420
  curl -s localhost:7420/v1/locks?waited=true | jq '.locks[].lock'
  curl -sN localhost:7420/v1/events`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), &f) },
	}
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:7420", "address to listen on; port 0 chooses a free one")
	cmd.Flags().DurationVar(&f.every, "every", time.Second, "how often to poll the store while there are viewers")
	return cmd
}

// check rejects flags that are wrong or unsafe.
func (f *serveFlags) check() error {
	if f.every < 100*time.Millisecond {
		return usage("--every %v: at least 100ms", f.every)
	}
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return usage("--listen %s: write it as HOST:PORT: %v", f.listen, err)
	}
	if !isLoopback(host) {
		return usage("--listen %s: only a loopback address, such as 127.0.0.1:7420, is safe without users", f.listen)
	}
	return nil
}

// isLoopback reports whether only this machine can reach a host.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func (a *app) serve(parent context.Context, f *serveFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	ctx, stop := untilSignal(parent)
	defer stop()
	conn, err := a.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer a.close(conn)
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return withCode(exitUsage, err)
	}
	logger := slog.New(slog.NewTextHandler(a.err, nil))
	log, err := audit.Open("", logger)
	if err != nil {
		return withCode(exitUsage, err)
	}
	server := serve.New(serve.Config{Client: conn.client, Store: conn.OpenedStore, GraceFix: conn.graceFix, Every: f.every, Timeout: a.timeout,
		Audit: log, Logger: logger, Version: version()})
	a.note("serving %s on http://%s", conn.Caps().Engine, listener.Addr())
	return serveUntil(ctx, server, listener)
}

// shutdownWithin is how long requests may take to end.
const shutdownWithin = 5 * time.Second

// serveUntil serves until ctx ends.
func serveUntil(ctx context.Context, server *serve.Server, listener net.Listener) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	web := server.HTTP()
	var all sync.WaitGroup
	all.Go(func() { server.Run(running) })
	all.Go(func() {
		<-running.Done()
		within, cancel := context.WithTimeout(context.Background(), shutdownWithin)
		defer cancel()
		_ = web.Shutdown(within)
	})
	err := web.Serve(listener)
	cancel()
	all.Wait()
	if !errors.Is(err, http.ErrServerClosed) {
		return withCode(exitInternal, fmt.Errorf("serving: %w", err))
	}
	return ended(ctx)
}
