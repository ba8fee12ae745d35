// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// TLSFiles are the parameters tls_ca, tls_cert, tls_key and tls_server_name of a URL.
type TLSFiles struct{ CA, Cert, Key, ServerName string }

// Parameters returns what reads them.
func (f *TLSFiles) Parameters() Parameters {
	return Parameters{"tls_ca": Text(&f.CA), "tls_cert": Text(&f.Cert), "tls_key": Text(&f.Key), "tls_server_name": Text(&f.ServerName)}
}

// Config reads the files. Without a CA the system's count. Errors begin with the package of the store.
//
// The certificate and its key are read again when they were replaced, so that a process outlives them. The CA is not: a
// tls.Config has one set for good, and to verify by hand needs the name of the server, which
// not every client library passes on. Let tls_ca have the next CA beside the last before servers change.
func (f TLSFiles) Config(pkg string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("%s: tls_ca: %w", pkg, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: tls_ca: %s holds no certificate in PEM form", pkg, f.CA)
		}
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New(pkg + ": tls_cert and tls_key go together")
	}
	if f.Cert != "" {
		pair, err := NewKeyPair(f.Cert, f.Key)
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
