// SPDX-License-Identifier: Apache-2.0

package treestore

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// dialer connects to a server, as Options.Dial does.
type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// dialTLS returns a dialer that speaks TLS on what another connects; nil is TCP.
func dialTLS(plain dialer, config *tls.Config) dialer {
	if plain == nil {
		plain = dialTCP
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := plain(ctx, network, address)
		if err != nil {
			return nil, err
		}
		host, _, _ := net.SplitHostPort(address)
		of := config.Clone()
		of.ServerName = cmp.Or(of.ServerName, host)
		secure := tls.Client(conn, of)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			var certificate *tls.CertificateVerificationError
			if errors.As(err, &certificate) {
				return nil, fmt.Errorf("TLS with %s: %w", address, err)
			}
			return nil, fmt.Errorf("TLS with %s, use zk:// for a port without TLS: %w", address, err)
		}
		return secure, nil
	}
}
