// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
)

// file has ann with a token, bob with certificates, and a proxy with a token.
func file(t *testing.T) (p *Policy, ann, proxy string) {
	t.Helper()
	ann, annHash := NewToken()
	proxy, proxyHash := NewToken()
	p, err := Parse(fmt.Appendf(nil, `{"users":[
		{"name":"ann","tokens":[%q],"rights":[{"prefix":"orders/","may":["see","force-unlock"]},{"prefix":"","may":["see"]}]},
		{"name":"bob","certificates":["uri:spiffe://example.org/bob","cn:bob"],"rights":[{"prefix":"","may":["see"]}]},
		{"name":"gateway","tokens":[%q],"rights":[]}],
		"proxy":{"header":"X-User","user":"gateway"}}`, annHash, proxyHash))
	must.OK(t, err)
	return p, ann, proxy
}

func certificate(cn string, uris ...string) *tls.ConnectionState {
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: cn}, NotAfter: time.Now().Add(time.Hour)}
	for _, text := range uris {
		u, err := url.Parse(text)
		if err != nil {
			panic(err)
		}
		cert.URIs = append(cert.URIs, u)
	}
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}
}

func TestIdentify(t *testing.T) {
	p, ann, proxy := file(t)
	unverified := certificate("bob")
	unverified.VerifiedChains = nil
	expired := certificate("bob")
	expired.PeerCertificates[0].NotAfter = time.Now().Add(-time.Second)
	for name, tt := range map[string]struct {
		headers []string
		tls     *tls.ConnectionState
		want    string
		err     error
	}{
		"token":                      {[]string{"Authorization", "Bearer " + ann}, nil, "ann", nil},
		"scheme in any case":         {[]string{"Authorization", "bearer " + ann}, nil, "ann", nil},
		"nothing":                    {nil, nil, "", ErrNoProof},
		"unknown token":              {[]string{"Authorization", "Bearer " + ann + "x"}, nil, "", ErrUnknownToken},
		"two tokens":                 {[]string{"Authorization", "Bearer " + ann, "Authorization", "Bearer " + ann}, nil, "", ErrBadHeader},
		"basic":                      {[]string{"Authorization", "Basic " + ann}, nil, "", ErrBadHeader},
		"certificate by URI":         {nil, certificate("x", "spiffe://example.org/bob"), "bob", nil},
		"certificate by name":        {nil, certificate("bob"), "bob", nil},
		"unknown certificate":        {nil, certificate("eve", "spiffe://example.org/eve"), "", ErrUnknownCert},
		"certificate not verified":   {nil, unverified, "", ErrNoProof},
		"certificate has expired":    {nil, expired, "", ErrExpiredCert},
		"token, certificate expired": {[]string{"Authorization", "Bearer " + ann}, expired, "", ErrExpiredCert},
		"certificate of another":     {[]string{"Authorization", "Bearer " + ann}, certificate("bob"), "", ErrTwoProofs},
		"unknown certificate, too":   {[]string{"Authorization", "Bearer " + ann}, certificate("eve"), "", ErrUnknownCert},
		"proxy names a user":         {[]string{"Authorization", "Bearer " + proxy, "X-User", "ann"}, nil, "ann", nil},
		"proxy names no user":        {[]string{"Authorization", "Bearer " + proxy}, nil, "", ErrUnknownName},
		"proxy names an unknown":     {[]string{"Authorization", "Bearer " + proxy, "X-User", "eve"}, nil, "", ErrUnknownName},
		"proxy names itself":         {[]string{"Authorization", "Bearer " + proxy, "X-User", "gateway"}, nil, "", ErrUnknownName},
		"proxy names two":            {[]string{"Authorization", "Bearer " + proxy, "X-User", "ann", "X-User", "bob"}, nil, "", ErrForgedHeader},
		"the header of another":      {[]string{"Authorization", "Bearer " + ann, "X-User", "bob"}, nil, "", ErrForgedHeader},
		"the header without a user":  {[]string{"X-User", "ann"}, nil, "", ErrNoProof},
	} {
		r := &http.Request{Header: http.Header{}, TLS: tt.tls}
		for i := 0; i < len(tt.headers); i += 2 {
			r.Header.Add(tt.headers[i], tt.headers[i+1])
		}
		c, err := p.Identify(r)
		if !errors.Is(err, tt.err) || c.Name != tt.want {
			t.Errorf("%s: got %q, %v", name, c.Name, err)
		}
	}
}

func TestRights(t *testing.T) {
	p, _, _ := file(t)
	ann := caller(p.byName["ann"])
	for name, want := range map[string]string{"orders/1": "see force-unlock", "orders": "see", "billing": "see", "": "see"} {
		var got []string
		for _, r := range Rights {
			if ann.May(r, name) {
				got = append(got, string(r))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %v, want %s", name, got, want)
		}
	}
	if Local.May(ForceUnlock, "a") || Local.May(Take, "a") || !Local.May(See, "a") {
		t.Error("the local caller may see, and nothing else")
	}
}

// TestWrongFilesAreRejected: a mistake in the file of users is an error, and not a right
// that is missing or too many.
func TestWrongFilesAreRejected(t *testing.T) {
	_, hash := NewToken()
	for text, word := range map[string]string{
		``: "EOF", `{}`: "no users", `{"users":[]}`: "no users", `{"users":[{"name":"a","rights":[]}]} x`: "more after", `{"user":[]}`: "user",
		`{"users":[{"name":"","rights":[]}]}`:              "1 to 100",
		`{"users":[{"name":"a\n","rights":[]}]}`:           "printable",
		`{"users":[{"name":"a"},{"name":"a"}]}`:            "twice",
		`{"users":[{"name":"a","tokens":["secret"]}]}`:     "sha256:",
		`{"users":[{"name":"a","tokens":["sha256:abc"]}]}`: "sha256:",
		`{"users":[{"name":"a","tokens":["` + hash + `"]},{"name":"b","tokens":["` + strings.ToUpper(hash[7:]) + `"]}]}`: "sha256:",
		`{"users":[{"name":"a","tokens":["` + hash + `","` + hash + `"]}]}`:                                              "twice",
		`{"users":[{"name":"a","certificates":["bob"]}]}`:                                                                "cn:",
		`{"users":[{"name":"a","certificates":["cn:b"]},{"name":"c","certificates":["cn:b"]}]}`:                          "twice",
		`{"users":[{"name":"a","rights":[{"prefix":"","may":["all"]}]}]}`:                                                "see, take or force-unlock",
		`{"users":[{"name":"a","rights":[{"prefix":"","may":[]}]}]}`:                                                     "may is empty; use see, take or force-unlock",
		`{"users":[{"name":"a","rights":[{"Prefix":"","mai":["see"]}]}]}`:                                                "mai",
		`{"users":[{"name":"a"}],"proxy":{"header":"X","user":"b"}}`:                                                     "not a user",
		`{"users":[{"name":"a","rights":[{"prefix":"","may":["see"]}]}],"proxy":{"header":"X","user":"a"}}`:              "remove the rights",
		`{"users":[{"name":"a"}],"proxy":{"user":"a"}}`:                                                                  "header",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: got %v, want %q in it", text, err, word)
		}
	}
}

// TestFileOthersCanWriteIsRejected: another user of the machine could add itself.
func TestFileOthersCanWriteIsRejected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.json")
	if _, added, err := AddToken(path, "ann", &Grant{May: []Right{See}}); err != nil || !added {
		t.Fatal(added, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	must.OK(t, os.Chmod(path, 0o666))
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("got %v", err)
	}
}

// TestUsersAreReadAgain: a user that is removed is gone without a restart, a second token
// works beside the first, and a broken file changes nothing.
func TestUsersAreReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.json")
	add := func(name string) string {
		t.Helper()
		token, _, err := AddToken(path, name, &Grant{May: []Right{See}})
		must.OK(t, err)
		return token
	}
	ann := add("ann")
	var reported error
	w, err := Watch(path, func(err error) { reported = err })
	must.OK(t, err)
	who := func(token string) string {
		w.checked = time.Time{} // a second has passed
		c, _ := w.Policy().Identify(&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}})
		return c.Name
	}
	bob, second := add("bob"), add("ann")
	if who(ann) != "ann" || who(second) != "ann" || who(bob) != "bob" {
		t.Errorf("got %q, %q, %q", who(ann), who(second), who(bob))
	}
	must.OK(t, os.WriteFile(path, []byte("{"), 0o600))
	if who(ann) != "ann" || reported == nil {
		t.Errorf("got %q, %v", who(ann), reported)
	}
	must.OK(t, os.Remove(path))
	carol := add("carol")
	if who(ann) != "" || who(carol) != "carol" {
		t.Errorf("got %q, %q", who(ann), who(carol))
	}
}

// TestOtherRightsAreRejected: a token does not change the rights of its user, and the caller that asks for others learns
// it; the file stays as it is.
func TestOtherRightsAreRejected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.json")
	if _, _, err := AddToken(path, "ann", &Grant{May: []Right{See, ForceUnlock}}); err != nil {
		t.Fatal(err)
	}
	for _, same := range []*Grant{nil, {May: []Right{ForceUnlock, See}}} {
		if _, added, err := AddToken(path, "ann", same); err != nil || added {
			t.Errorf("%+v: %v, %v", same, added, err)
		}
	}
	before, err := os.ReadFile(path)
	must.OK(t, err)
	for _, other := range []*Grant{{May: []Right{See}}, {}, {Prefix: "a", May: []Right{See, ForceUnlock}}} {
		if token, _, err := AddToken(path, "ann", other); err == nil || token != "" || !strings.Contains(err.Error(), `edit "rights" there`) {
			t.Errorf("%+v: %q, %v", other, token, err)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed: %v\n%s", err, after)
	}
	if _, _, err := AddToken(path, "bob", nil); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || strings.Count(string(text), `"see"`) != 2 {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestProxyWithoutTheHeaderHasNoRights: the token of the proxy alone is not a proof, so a proxy
// that does not set the header gives its clients nothing.
func TestProxyWithoutTheHeaderHasNoRights(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.json")
	token, _, err := AddToken(path, "gateway", &Grant{})
	must.OK(t, err)
	p, err := Parse(fmt.Appendf(nil, `{"users":[{"name":"gateway","tokens":[%q],"rights":[]}],"proxy":{"header":"X-User","user":"gateway"}}`, HashOf(token)))
	must.OK(t, err)
	if c, err := p.Identify(&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}); !errors.Is(err, ErrUnknownName) {
		t.Errorf("got %+v, %v", c, err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), `"rights": []`) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestExpiredCertificateIsRefusedOnAnOpenConnection: the handshake checked the certificate once.
func TestExpiredCertificateIsRefusedOnAnOpenConnection(t *testing.T) {
	p, _, _ := file(t)
	state := certificate("bob")
	r := &http.Request{Header: http.Header{}, TLS: state}
	if _, err := p.Identify(r); err != nil {
		t.Error(err)
	}
	state.VerifiedChains[0][0].NotAfter = time.Now().Add(-time.Second)
	if c, err := p.Identify(r); !errors.Is(err, ErrExpiredCert) {
		t.Errorf("got %+v, %v", c, err)
	}
}

// TestAddTokenKeepsOwnerAndMode: root adds a user to the file of a server that is not root, and the
// server can still read it.
func TestAddTokenKeepsOwnerAndMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.json")
	if _, _, err := AddToken(path, "ann", &Grant{May: []Right{See}}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a new file: %v, %v", info.Mode(), err)
	}
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		gid = 12345 // only root can give a file away
		must.OK(t, os.Chown(path, uid, gid))
	}
	must.OK(t, os.Chmod(path, 0o640))
	if _, _, err := AddToken(path, "bob", &Grant{May: []Right{See}}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	must.OK(t, err)
	if sys := info.Sys().(*syscall.Stat_t); info.Mode().Perm() != 0o640 || int(sys.Uid) != uid || int(sys.Gid) != gid {
		t.Errorf("mode %v, owner %d:%d", info.Mode(), sys.Uid, sys.Gid)
	}
}

// TestTokensMadeAtOnceAreAllKept: a token that was printed works, however many commands make tokens at the same time.
func TestTokensMadeAtOnceAreAllKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.json")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, _, err := AddToken(path, fmt.Sprint("user", i), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	text, err := os.ReadFile(path)
	must.OK(t, err)
	file, err := Decode(text)
	if err != nil || len(file.Users) != 20 {
		t.Errorf("%d users, %v; want 20", len(file.Users), err)
	}
}
