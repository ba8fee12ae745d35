// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/access"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/audit"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/leases"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/server/metrics"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/spf13/cobra"
)

// serveFlags are where, how and for whom to serve.
type serveFlags struct {
	listen             string
	every              time.Duration
	users, audit       string
	cert, key, callers string
	plainHTTP          bool
	watches            []string
	watchFile          string
	lockTTL            time.Duration
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Show locks in a browser, and take them over HTTP for programs in any language",
		Long: `Serve a page that shows who holds what, who waits for whom, deadlocks, and what the store
promises, and the same as an API for programs: http://ADDRESS/openapi.yaml describes it.

The server polls the store once for all viewers, and keeps nothing that locks depend on:
stop it at any time. Programs in any language take locks through it, and keep them when
it is killed and they reach another server within --lock-ttl.

Without --users it listens on a loopback address only, where every user of the machine can
see all locks of the namespace, and break none. With --users a caller needs a token of
"fencelock serve token", or a certificate that --client-ca signed, and has the rights that
the file gives it. Every break and every denied call is logged, on stderr and in the file
of --audit.

With --watch /metrics shows locks to Prometheus: how long they are held and waited for,
and whether a job of "fencelock run --once-per" was missed.

It ends with ctrl-C. The exit code is 64 if it cannot listen, and 69 if the store does not
answer at the start; later /readyz reports it, and the server goes on.`,
		Example: `  fencelock serve                                # open http://127.0.0.1:7420
  fencelock serve token ann --may see,force-unlock --users users.json
  fencelock serve --users users.json --listen :7420 --tls-cert cert.pem --tls-key key.pem
  curl -s localhost:7420/v1/locks?waited=true | jq '.locks[].lock'`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:7420", "address to listen on; port 0 chooses a free one")
	flags.DurationVar(&f.every, "every", time.Second, "how often to poll the store while there are viewers")
	flags.StringVar(&f.users, "users", "", "file of users with their rights; it is read again when it changes")
	flags.StringVar(&f.audit, "audit", "", "file to which every break and every denied call is appended")
	flags.StringVar(&f.cert, "tls-cert", "", "certificate of the server, to serve over TLS")
	flags.StringVar(&f.key, "tls-key", "", "private key of the certificate")
	flags.StringVar(&f.callers, "client-ca", "", "certificates that sign those of callers")
	flags.DurationVar(&f.lockTTL, "lock-ttl", 30*time.Second, "how long locks that clients took through this server stay taken if it is killed and they do not reach another")
	flags.BoolVar(&f.plainHTTP, "plain-http", false, "listen on other than loopback addresses without TLS, behind a proxy that has it")
	flags.StringArrayVar(&f.watches, "watch", nil, "lock with metrics at /metrics: limits and a name or a prefix, as in \"held=10m waiting=1m deploy/*\"; can be repeated")
	flags.StringVar(&f.watchFile, "watch-file", "", "file of such lines")
	cmd.AddCommand(a.serveTokenCommand(), a.serveHealthCommand())
	return cmd
}

// check rejects flags that are wrong or unsafe.
func (f *serveFlags) check() error {
	if f.every < 100*time.Millisecond {
		return usage("--every %v: at least 100ms", f.every)
	}
	if f.lockTTL < 2*leases.MinTTL {
		return usage("--lock-ttl %v: at least %v", f.lockTTL, 2*leases.MinTTL)
	}
	host, _, err := net.SplitHostPort(f.listen)
	switch {
	case err != nil:
		return usage("--listen %s: write it as HOST:PORT: %v", f.listen, err)
	case !isLoopback(host) && f.users == "":
		return usage("--listen %s: without --users only a loopback address, such as 127.0.0.1:7420, is safe", f.listen)
	case (f.cert == "") != (f.key == ""):
		return usage("--tls-cert and --tls-key: give both or neither")
	case f.callers != "" && (f.cert == "" || f.users == ""):
		return usage("--client-ca needs --tls-cert, --tls-key and --users")
	case !isLoopback(host) && f.cert == "" && !f.plainHTTP:
		return usage("--listen %s: tokens would cross the network in the clear; give --tls-cert and --tls-key, or --plain-http behind a proxy that has TLS", f.listen)
	}
	return nil
}

// watched are the locks with metrics.
func (f *serveFlags) watched() ([]metrics.Watch, error) {
	lines := f.watches
	if f.watchFile != "" {
		more, err := metrics.Lines(f.watchFile)
		if err != nil {
			return nil, withCode(exitUsage, err)
		}
		lines = append(lines, more...)
	}
	all, err := metrics.ParseAll(lines)
	if err != nil {
		return nil, usage("--watch: %v", err)
	}
	return all, nil
}

// isLoopback reports whether only this machine can reach a host.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// tlsConfig is nil without TLS.
func (f *serveFlags) tlsConfig() (*tls.Config, error) {
	if f.cert == "" {
		return nil, nil
	}
	pair, err := storekit.NewKeyPair(f.cert, f.key)
	if err != nil {
		return nil, withCode(exitUsage, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Certificate(), nil }}
	if f.callers == "" {
		return config, nil
	}
	text, err := os.ReadFile(f.callers)
	if err != nil {
		return nil, withCode(exitUsage, err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, usage("--client-ca %s has no certificate in PEM form", f.callers)
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven // a caller may have a token instead
	return config, nil
}

func (a *app) serve(parent context.Context, f *serveFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	secure, err := f.tlsConfig()
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(a.err, nil))
	cfg := server.Config{Every: f.every, Timeout: a.timeout, Logger: logger, Version: version()}
	if f.users != "" {
		users, err := access.Watch(f.users, func(err error) {
			logger.Error("the file of users is wrong; the users from before stay", "error", err)
		})
		if err != nil {
			return withCode(exitUsage, err)
		}
		cfg.Policy = users.Policy
	}
	if cfg.Watches, err = f.watched(); err != nil {
		return err
	}
	if cfg.Audit, err = audit.Open(f.audit, logger); err != nil {
		return withCode(exitUsage, err)
	}
	defer cfg.Audit.Close()
	// What a hangup asks for has happened: users and certificates are read again when they were replaced.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	ctx, stop := untilSignalOf(parent, slices.DeleteFunc(slices.Clone(endSignals), func(s os.Signal) bool { return s == syscall.SIGHUP }))
	defer stop()
	conn, err := a.connect(ctx, nil) // no lock is to be taken
	if err != nil {
		return err
	}
	defer a.closeClient(conn, a.timeout)
	cfg.Client, cfg.Store, cfg.GraceFix = conn.client, conn.OpenedStore, conn.graceFix
	if cfg.Locks, err = f.lockClient(conn.OpenedStore); err != nil {
		return withCode(exitUsage, err)
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return withCode(exitUsage, err)
	}
	scheme := "http"
	if secure != nil {
		scheme, listener = "https", tls.NewListener(listener, secure)
	}
	a.note("serving %s on %s://%s", conn.Caps().Engine, scheme, listener.Addr())
	return serveUntil(ctx, server.New(cfg), listener)
}

// lockClient takes the locks of clients. It is never closed, and neither is the store, which ends its sessions on
// some servers: when this process ends, its clients go on at another one, and what they do not continue ends
// with the TTL.
func (f *serveFlags) lockClient(store driver.Store) (*fencelock.Client, error) {
	ttl := f.lockTTL
	if most := store.Caps().MaxTTL; most > 0 {
		ttl = min(ttl, most)
	}
	return fencelock.New(store, &fencelock.Options{TTL: ttl, LocalHandoff: -1})
}

// shutdownWithin is how long requests may take to end, and unlocks in the background.
const shutdownWithin = 5 * time.Second

// serveUntil serves until ctx ends.
func serveUntil(ctx context.Context, server *server.Server, listener net.Listener) error {
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
		server.Unlocked(within)
	})
	err := web.Serve(listener)
	cancel()
	all.Wait()
	server.FlushAudit()
	if !errors.Is(err, http.ErrServerClosed) {
		return withCode(exitInternal, fmt.Errorf("serving: %w", err))
	}
	return ended(ctx)
}

func (a *app) serveTokenCommand() *cobra.Command {
	var users, prefix string
	var may []string
	cmd := &cobra.Command{
		Use:   "token NAME --users FILE",
		Short: "Make a token for a user of the server",
		Long: `Make a token for a user and print it. The file of users gets its hash only, so the token
cannot be shown again.

A user that is not in the file is added, with the rights of --may on locks whose name
begins with --prefix. One that is there gets a further token: remove the old token from
the file when the new one is in use. Its rights stay as they are, and --may or --prefix
that differ from them are an error: edit the file to change the rights of a user, or to
give it certificates; the server reads it again within a second.`,
		Example: `  fencelock serve token ann --users users.json
  fencelock serve token oncall --may see,force-unlock --prefix orders/ --users users.json`,
		Args: exactly(1, "the name of a user"),
		RunE: func(cmd *cobra.Command, args []string) error {
			changed := cmd.Flags().Changed("may") || cmd.Flags().Changed("prefix")
			return a.addToken(users, args[0], prefix, may, changed)
		},
	}
	cmd.Flags().StringVar(&users, "users", "", "file of users; it is made if it is not there")
	cmd.Flags().StringVar(&prefix, "prefix", "", "the user has the rights on names that begin with this (default: all)")
	cmd.Flags().StringSliceVar(&may, "may", []string{"see"}, "rights of the user: see, take, force-unlock; or none")
	return cmd
}

// addToken adds a token to a file of users and prints it.
func (a *app) addToken(users, name, prefix string, may []string, changed bool) error {
	if users == "" {
		return usage("--users is missing: name the file of users")
	}
	grant := access.Grant{Prefix: prefix}
	rights := strings.Join(may, " and ")
	if rights == "none" {
		may = nil
	}
	for _, text := range may {
		if !slices.Contains(access.Rights, access.Right(text)) {
			return usage("--may %s: rights are see, take and force-unlock, or none alone", text)
		}
		grant.May = append(grant.May, access.Right(text))
	}
	chosen := &grant
	if !changed {
		chosen = nil
	}
	token, added, err := access.AddToken(users, name, chosen)
	if err != nil {
		return withCode(exitUsage, err)
	}
	switch {
	case added && len(may) == 0:
		a.note("added %s to %s, without rights; the token is shown this once", name, users)
	case added:
		a.note("added %s to %s, with the rights %s on names that begin with %q; the token is shown this once", name, users, rights, prefix)
	default:
		a.note("%s has a further token; the others in %s stay valid until you remove them", name, users)
	}
	_, err = fmt.Fprintln(a.out, token)
	return err
}

// serveHealthCommand is for containers, which have no other program to call the server with.
func (a *app) serveHealthCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "health [URL]",
		Short: "Check whether a server runs",
		Long: `Check whether a server runs, for the health check of a container. URL is that of the server
(default http://127.0.0.1:7420). The exit code is 0 if /healthz answers, and 69 if it does
not. Whether the store answers is not checked: a restart of the server does not help it.`,
		Example: `  fencelock serve health`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			url := "http://127.0.0.1:7420"
			if len(args) > 0 {
				url = args[0]
			}
			return a.serveHealth(cmd.Context(), strings.TrimSuffix(url, "/")+"/healthz")
		},
	}
}

func (a *app) serveHealth(parent context.Context, url string) error {
	ctx, cancel := context.WithTimeout(parent, a.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return withCode(exitUsage, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return withCode(exitUnavailable, fmt.Errorf("%w; is fencelock serve started? fencelock serve health URL checks another server", err))
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return withCode(exitUnavailable, fmt.Errorf("%s answers %s; is it fencelock serve?", url, resp.Status))
	}
	return nil
}
