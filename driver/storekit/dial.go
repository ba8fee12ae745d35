// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/fencelock/fencelock/driver"
)

// Dialer connects to a host, as net.Dialer.DialContext does.
type Dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer returns a function that connects as the URL says, over TLS or not, by plain, which is
// TCP if it is nil. What is wrong with a certificate is in its errors, with the parameter that helps.
func (a *Address) Dialer(plain Dialer) Dialer {
	if plain == nil {
		plain = (&net.Dialer{}).DialContext
	}
	if a.TLS == nil {
		return plain
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := plain(ctx, network, address)
		if err != nil {
			return nil, err
		}
		config := a.TLS.Clone()
		host, _, _ := net.SplitHostPort(address)
		config.ServerName = cmp.Or(config.ServerName, host)
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			hint := cmp.Or(CertificateHint(err), fmt.Sprintf("if the server does not use TLS, write %s:// instead of %[1]ss://", a.Scheme))
			return nil, fmt.Errorf("no TLS with %s; %s: %w", address, hint, err)
		}
		return secure, nil
	}
}

// Reach connects to one of the hosts and closes the connection. Call it before a client library
// that goes on trying at an address where nothing listens, or where TLS fails, and does not report why.
func Reach(ctx context.Context, pkg string, hosts []string, dial Dialer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, len(hosts))
	for _, host := range hosts {
		go func() {
			conn, err := dial(ctx, "tcp", host)
			if err == nil {
				err = conn.Close()
			}
			results <- err
		}()
	}
	var first error
	for range hosts {
		select {
		case err := <-results:
			if err == nil {
				return nil
			}
			first = cmp.Or(first, err)
		case <-ctx.Done(): // a dialer of the caller's may ignore it
			first = cmp.Or(first, ctx.Err())
		}
	}
	return fmt.Errorf("%s: open %s: %w: %w", pkg, strings.Join(hosts, ","), driver.ErrUnavailable, first)
}

// CertificateHint returns what to change in a URL if err is about a certificate, and "" otherwise.
func CertificateHint(err error) string {
	var untrusted *tls.CertificateVerificationError
	var otherName x509.HostnameError
	var unknownCA x509.UnknownAuthorityError
	var alert *net.OpError
	switch {
	case errors.As(err, &otherName):
		return "the server's certificate is for another name; give that name by tls_server_name=NAME in the URL (in Go: ServerName of the tls.Config)"
	case errors.As(err, &unknownCA):
		return "the server's certificate is not trusted; give its CA by tls_ca=FILE in the URL (in Go: RootCAs of the tls.Config)"
	case errors.As(err, &untrusted): // it has expired, for example
		return "the server's certificate is not valid"
	case errors.As(err, &alert) && alert.Op == "remote error":
		return "the server refused the TLS handshake; if it wants a certificate of the client, give it by tls_cert=FILE and tls_key=FILE in the URL"
	}
	return ""
}

// Opener makes a driver.Opener of a store's Open, for a store that has no use for the options: it refuses no
// server and reports no findings.
func Opener[S driver.OpenedStore, O any](open func(ctx context.Context, url string, opts *O) (S, error)) driver.Opener {
	return func(ctx context.Context, url string, _ driver.OpenOptions) (driver.OpenedStore, error) {
		s, err := open(ctx, url, nil)
		if err != nil { // s is a nil pointer, which is not a nil interface
			return nil, err
		}
		return s, nil
	}
}
