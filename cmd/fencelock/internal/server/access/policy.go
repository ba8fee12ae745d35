// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// File is the file of users.
type File struct {
	Users []User `json:"users"`
	// Proxy is off unless it is set.
	Proxy *Proxy `json:"proxy,omitempty"`
}

// User is an entry of the file.
type User struct {
	Name string `json:"name"`
	// Tokens are hashes, as HashOf makes them. Two let a token be replaced without a pause.
	Tokens []string `json:"tokens,omitempty"`
	// Certificates are names in client certificates: uri:, dns:, email: or cn: and a name.
	Certificates []string `json:"certificates,omitempty"`
	Grants       []Grant  `json:"rights"`
}

// Proxy lets a reverse proxy name its user in a header. Only the user of the file that is
// named here may do so, by its own token or certificate: the header of any other caller is
// rejected. The proxy's user has no rights: a proxy that does not set the header must not give its
// clients any.
type Proxy struct {
	Header string `json:"header"`
	User   string `json:"user"`
}

// Policy is a File that was checked.
type Policy struct {
	byName, byToken, byCertificate map[string]*User
	proxy                          *Proxy
}

const hashPrefix = "sha256:"

// NewToken makes a token and its hash. A token is random and long, so that a fast hash
// without salt is enough: it cannot be guessed, and two users have never the same.
func NewToken() (token, hash string) {
	var secret [32]byte
	rand.Read(secret[:])
	token = "fl_" + base64.RawURLEncoding.EncodeToString(secret[:])
	return token, HashOf(token)
}

// HashOf is what the file has of a token.
func HashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// ReadFile reads and checks a file of users. It rejects one that other users of the machine
// can write to: they could add themselves.
func ReadFile(path string) (*Policy, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s: other users may write to it; chmod go-w it", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return nil, err
	}
	p, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Decode reads a file strictly: a misspelled field would be a right that is missing, or one
// that was meant to be limited.
func Decode(text []byte) (*File, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var f File
	if err := dec.Decode(&f); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the end of the object; leave it out")
	}
	return &f, nil
}

// Parse reads and checks the text of a file.
func Parse(text []byte) (*Policy, error) {
	f, err := Decode(text)
	if err != nil {
		return nil, err
	}
	p := &Policy{map[string]*User{}, map[string]*User{}, map[string]*User{}, f.Proxy}
	if len(f.Users) == 0 {
		return nil, errors.New("it has no users; add one with fencelock serve token NAME --users FILE")
	}
	for i := range f.Users {
		if err := p.add(&f.Users[i]); err != nil {
			return nil, fmt.Errorf("user %q: %w", f.Users[i].Name, err)
		}
	}
	if p.proxy != nil && (p.proxy.Header == "" || p.byName[p.proxy.User] == nil) {
		return nil, fmt.Errorf("proxy: name the header, and the user of the proxy; %q is not a user of the file", p.proxy.User)
	}
	if p.proxy != nil && len(p.byName[p.proxy.User].Grants) > 0 {
		return nil, fmt.Errorf("proxy: remove the rights of %q; the proxy calls for the users that it names, never for itself", p.proxy.User)
	}
	return p, nil
}

func (p *Policy) add(u *User) error {
	switch {
	case u.Name == "" || len(u.Name) > 100 || strings.ContainsFunc(u.Name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return errors.New("a name has 1 to 100 printable characters")
	case p.byName[u.Name] != nil:
		return errors.New("the name is there twice; names must differ")
	}
	p.byName[u.Name] = u
	for _, hash := range u.Tokens {
		digits, ok := strings.CutPrefix(hash, hashPrefix)
		if sum, err := hex.DecodeString(digits); !ok || err != nil || len(sum) != sha256.Size {
			return errors.New("a token is written as sha256: and 64 hexadecimal digits; fencelock serve token makes one")
		}
		if p.byToken[strings.ToLower(hash)] != nil {
			return errors.New("the token is there twice; every user has its own")
		}
		p.byToken[strings.ToLower(hash)] = u
	}
	for _, name := range u.Certificates {
		kind, rest, _ := strings.Cut(name, ":")
		if rest == "" || kind != "uri" && kind != "dns" && kind != "email" && kind != "cn" {
			return fmt.Errorf("certificate %q: write uri:, dns:, email: or cn: and the name", name)
		}
		if p.byCertificate[name] != nil {
			return fmt.Errorf("certificate %q is there twice", name)
		}
		p.byCertificate[name] = u
	}
	for _, g := range u.Grants {
		if len(g.May) == 0 {
			return fmt.Errorf("prefix %q: may is empty; use see, take or force-unlock", g.Prefix)
		}
	}
	return nil
}
