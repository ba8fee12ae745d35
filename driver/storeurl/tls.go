// SPDX-License-Identifier: Apache-2.0

package storeurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// TLS reads the files that the parameters tls_ca, tls_cert and tls_key name. Without a CA
// the system's count. Errors begin with the package of the store.
//
// The certificate and its key are read again when they were replaced, so that a process outlives them. The CA is not: a
// tls.Config has one set for good, and to verify by hand needs the name of the server, which
// not every client library passes on. Let tls_ca have the next CA beside the last before servers change.
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
		pair, err := NewKeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s: tls_cert and tls_key: %w", pkg, err)
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.Certificate(), nil }
	}
	return c, nil
}

// KeyPair is a certificate and its key in two files that may be replaced.
type KeyPair struct {
	cert, key string

	mu   sync.Mutex
	last *tls.Certificate
	made [2]time.Time // when the files of last were written
}

// NewKeyPair reads both files.
func NewKeyPair(cert, key string) (*KeyPair, error) {
	p := &KeyPair{cert: cert, key: key}
	p.made = p.written()
	pair, err := tls.LoadX509KeyPair(cert, key)
	p.last = &pair
	return p, err
}

// Certificate is the pair of now. If the files do not fit, because one of them is about to be replaced, it is the last
// that did.
func (p *KeyPair) Certificate() *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	made := p.written()
	if made == p.made {
		return p.last
	}
	if pair, err := tls.LoadX509KeyPair(p.cert, p.key); err == nil {
		p.last, p.made = &pair, made
	}
	return p.last
}

// written is when the files were written last, zero for one that is not there.
func (p *KeyPair) written() (at [2]time.Time) {
	for i, file := range []string{p.cert, p.key} {
		if info, err := os.Stat(file); err == nil {
			at[i] = info.ModTime()
		}
	}
	return at
}
