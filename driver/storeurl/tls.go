// SPDX-License-Identifier: Apache-2.0

package storeurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLS reads the files that the parameters tls_ca, tls_cert and tls_key name. Without a CA
// the system's count. Errors begin with the package of the store.
func TLS(pkg, ca, cert, key, serverName string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serverName}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("%s: tls_ca: %w", pkg, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: tls_ca: %s holds no certificate in PEM form", pkg, ca)
		}
	}
	if (cert == "") != (key == "") {
		return nil, errors.New(pkg + ": tls_cert and tls_key go together")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s: tls_cert and tls_key: %w", pkg, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
