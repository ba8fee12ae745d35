// SPDX-License-Identifier: Apache-2.0

package redistest

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
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// Secure is a server that speaks TLS only, with a certificate that nobody else
// trusts.
type Secure struct {
	*Server
	// CA, Cert and Key are files in PEM form. The one certificate is its own CA,
	// and serves clients as well.
	CA, Cert, Key string
	// Config trusts the server and shows it the certificate.
	Config *tls.Config
}

// StartTLS starts a server that wants a certificate from its clients.
func StartTLS(t testing.TB, extra ...string) *Secure {
	t.Helper()
	s := &Secure{}
	s.Cert, s.Key = selfSigned(t)
	s.CA = s.Cert
	pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	text, err := os.ReadFile(s.CA)
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal("no certificate in ", s.CA, err)
	}
	s.Config = &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	port := freePort(t)
	s.Server = Start(t, append([]string{"--tls-port", strconv.Itoa(port), "--tls-cert-file", s.Cert,
		"--tls-key-file", s.Key, "--tls-ca-cert-file", s.CA}, extra...)...)
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return s
}

// selfSigned writes a certificate for 127.0.0.1 and its key.
func selfSigned(t testing.TB) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fencelock test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, bytes []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret)
}
