// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: name}}
	a.cert, a.key = a.make("ca", template)
	return a
}

// make writes a certificate and its key to NAME.pem and NAME.key.
func (a *authority) make(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(a.t, err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	must.OK(a.t, err)
	cert, err := x509.ParseCertificate(der)
	must.OK(a.t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must.OK(a.t, err)
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		must.OK(a.t, os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600))
	}
	return cert, key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// caller makes a certificate for a caller and returns a client that has it.
func (a *authority) caller(name string, server *authority) *http.Client {
	a.t.Helper()
	a.make(name, &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	pair, err := tls.LoadX509KeyPair(a.file(name+".pem"), a.file(name+".key"))
	must.OK(a.t, err)
	roots := x509.NewCertPool()
	roots.AddCert(server.cert)
	return &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}}
}

// TestServeCertificates: a certificate that the chosen authority signed is a proof, one of
// another authority is not, and neither is one with another name.
func TestServeCertificates(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	ours, other := newAuthority(t, "ours"), newAuthority(t, "other")
	ours.make("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	users := ours.file("users.json")
	must.OK(t, os.WriteFile(users, []byte(`{"users":[{"name":"ann","certificates":["cn:ann-laptop"],"rights":[{"prefix":"","may":["see"]}]}]}`), 0o600))
	_, url := serving(t, s, "--users", users, "--tls-cert", ours.file("server.pem"), "--tls-key", ours.file("server.key"), "--client-ca", ours.file("ca.pem"))
	status := func(c *http.Client) int {
		resp, err := c.Get(url + "/v1/me")
		if err != nil {
			return 0 // the handshake failed
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if got := status(ours.caller("ann-laptop", ours)); got != http.StatusOK {
		t.Errorf("ann: %d", got)
	}
	if got := status(ours.caller("eve-laptop", ours)); got != http.StatusUnauthorized {
		t.Errorf("eve: %d", got)
	}
	if got := status(other.caller("ann-laptop", ours)); got == http.StatusOK {
		t.Errorf("ann of another authority: %d", got)
	}
}
