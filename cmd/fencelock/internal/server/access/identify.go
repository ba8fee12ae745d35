// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"time"
)

// Errors of Identify. All are answered alike, so that a caller learns nothing from them;
// the audit log has them.
var (
	ErrNoProof      = errors.New("no token and no certificate")
	ErrBadHeader    = errors.New("the header Authorization is not one bearer token")
	ErrUnknownToken = errors.New("unknown token")
	ErrUnknownCert  = errors.New("the names of the certificate are not in the file of users")
	ErrExpiredCert  = errors.New("the certificate has expired since the connection was opened")
	ErrTwoProofs    = errors.New("the token and the certificate belong to different users")
	ErrForgedHeader = errors.New("the proxy's header from a caller that is not the proxy")
	ErrUnknownName  = errors.New("the proxy named no user, or one that is not in the file of users")
)

// Identify returns who makes a request.
func (p *Policy) Identify(r *http.Request) (Caller, error) {
	user, err := p.prove(r)
	if err != nil {
		return Caller{}, err
	}
	if p.proxy == nil {
		return caller(user), nil
	}
	named := r.Header.Values(p.proxy.Header)
	switch {
	case user.Name != p.proxy.User && len(named) == 0:
		return caller(user), nil
	case user.Name != p.proxy.User || len(named) > 1:
		return Caller{}, ErrForgedHeader
	case len(named) == 0 || p.byName[named[0]] == nil || named[0] == p.proxy.User:
		return Caller{}, ErrUnknownName
	}
	return caller(p.byName[named[0]]), nil
}

func caller(u *User) Caller { return Caller{Name: u.Name, Grants: u.Grants} }

// prove finds the user by token, by certificate, or by both if they agree.
func (p *Policy) prove(r *http.Request) (*User, error) {
	token, err := bearer(r)
	if err != nil {
		return nil, err
	}
	var byCert *User
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		cert := r.TLS.VerifiedChains[0][0]
		// The handshake checked it, but a connection can last longer than the certificate.
		if time.Now().After(cert.NotAfter) {
			return nil, ErrExpiredCert
		}
		if byCert, err = p.certified(cert); err != nil {
			return nil, err
		}
	}
	if token == "" {
		if byCert == nil {
			return nil, ErrNoProof
		}
		return byCert, nil
	}
	byToken := p.byToken[HashOf(token)]
	switch {
	case byToken == nil:
		return nil, ErrUnknownToken
	case byCert != nil && byCert != byToken:
		return nil, ErrTwoProofs
	}
	return byToken, nil
}

// bearer is the token of a request, "" if it has none.
func bearer(r *http.Request) (string, error) {
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 {
		return "", nil
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "Bearer") || len(token) < 16 || len(token) > 200 || strings.ContainsAny(token, " \t,") {
		return "", ErrBadHeader
	}
	return token, nil
}

// certified finds the user of a certificate. Two names of a certificate must not be those
// of two users.
func (p *Policy) certified(cert *x509.Certificate) (*User, error) {
	var found *User
	names := []string{"cn:" + cert.Subject.CommonName}
	for _, u := range cert.URIs {
		names = append(names, "uri:"+u.String())
	}
	for _, n := range cert.DNSNames {
		names = append(names, "dns:"+n)
	}
	for _, n := range cert.EmailAddresses {
		names = append(names, "email:"+n)
	}
	for _, n := range names {
		u := p.byCertificate[n]
		if u != nil && found != nil && u != found {
			return nil, ErrUnknownCert
		}
		if u != nil {
			found = u
		}
	}
	if found == nil {
		return nil, ErrUnknownCert
	}
	return found, nil
}
