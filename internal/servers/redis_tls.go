// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// SecureRedis is a server with TLS, with a certificate that only its Config trusts.
type SecureRedis struct {
	*RedisServer
	// CA, Cert and Key are files in PEM form. The one certificate is its own CA,
	// and serves clients as well.
	CA, Cert, Key string
	// Config trusts the server and shows it the certificate.
	Config *tls.Config
}

// StartTLS starts a server that requires a certificate from its clients. Addr is its
// address for TLS.
func (f Flavor) StartTLS(args ...string) (*SecureRedis, error) {
	return started(func() (*SecureRedis, error) {
		plain, err := f.New()
		if err != nil {
			return nil, err
		}
		s := &SecureRedis{RedisServer: plain}
		port, err := FreePort()
		if err == nil {
			err = s.certify()
		}
		if err != nil {
			s.Stop()
			return nil, err
		}
		s.args = append(append(s.args, "--tls-port", strconv.Itoa(port), "--tls-cert-file", s.Cert,
			"--tls-key-file", s.Key, "--tls-ca-cert-file", s.CA), args...)
		s.Addr = loopback(port)
		return s, nil
	})
}

// certify makes the certificate.
func (s *SecureRedis) certify() (err error) {
	s.Cert, s.Key, err = SelfSigned(s.dir)
	if err != nil {
		return err
	}
	s.CA = s.Cert
	pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	text, err := os.ReadFile(s.CA)
	if err != nil || !roots.AppendCertsFromPEM(text) {
		return errors.Join(err, errors.New("no certificate in "+s.CA))
	}
	s.Config = &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return nil
}

// SelfSigned writes a certificate for the names, or else for 127.0.0.1, and its key.
func SelfSigned(dir string, names ...string) (cert, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fencelock test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: names, BasicConstraintsValid: true, IsCA: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if len(names) == 0 {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return "", "", err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	return cert, key, errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}
