// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Form is what the URLs of a store look like:
//
//	scheme[s][-kind]://[user[:password]@]host[:port][,host[:port]...][/path][?parameters]
type Form struct {
	// Package begins errors.
	Package string
	// Scheme is the scheme without TLS. With an s behind it everything goes over TLS.
	Scheme string
	// Kinds are what may follow the scheme after a hyphen, each with its default port.
	Kinds map[string]string
	// Port is the default port, and SecurePort the one over TLS, if it differs.
	Port, SecurePort string
}

// Address is a URL that was understood.
type Address struct {
	Form
	// Secure is set if the scheme is the one with TLS.
	Secure bool
	// Kind is what follows the scheme, or "".
	Kind string
	// User has user and password without escapes; it is nil if the URL has none.
	User *url.Userinfo
	// Hosts are each a host and a port.
	Hosts []string
	// Path is what follows the first slash after the hosts, as it is written.
	Path string
	// Query is what follows the question mark.
	Query string
	// TLS is set by ReadParameters if the URL is Secure.
	TLS *tls.Config
}

// Errorf makes an error that begins with the name of the package.
func (f Form) Errorf(format string, args ...any) error {
	return fmt.Errorf(f.Package+": "+format, args...)
}

// Parse reads a URL but for its parameters; see Address.ReadParameters. It does so by itself
// because a list of hosts is no URL to net/url, and because the errors of that package quote
// their input. Nothing of the part before the @ gets into an error.
func (f Form) Parse(text string) (*Address, error) {
	a := &Address{Form: f}
	if text == "" {
		return nil, f.Errorf("the URL is empty; it begins with %s", f.schemes())
	}
	scheme, rest, ok := strings.Cut(text, "://")
	base, kind, hasKind := strings.Cut(scheme, "-")
	a.Secure, a.Kind = base == f.Scheme+"s", kind
	if !ok || !a.Secure && base != f.Scheme || hasKind && f.Kinds[kind] == "" {
		return nil, f.Errorf("the URL must begin with %s (it is not shown, it may hold a password)", f.schemes())
	}
	rest, a.Query, _ = strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	a.Path = path
	if strings.Contains(a.Path+a.Query, "@") {
		return nil, f.Errorf("%w", ErrMisplaced)
	}
	if at := strings.LastIndex(hosts, "@"); at >= 0 {
		if a.User, ok = userinfo(hosts[:at]); !ok {
			return nil, f.Errorf("the user or password in the URL has a %% that is not an escape; write %%25 for a %%")
		}
		hosts = hosts[at+1:]
	}
	return a, a.setHosts(hosts)
}

// userinfo reads what stands before the @. It returns false for a % that escapes nothing.
func userinfo(text string) (*url.Userinfo, bool) {
	name, pass, both := strings.Cut(text, ":")
	name, err1 := url.PathUnescape(name)
	pass, err2 := url.PathUnescape(pass)
	if err1 != nil || err2 != nil {
		return nil, false
	}
	if !both {
		return url.User(name), true
	}
	return url.UserPassword(name, pass), true
}

// schemes lists how a URL may begin.
func (f Form) schemes() string {
	text := f.Scheme + "://"
	for _, kind := range slices.Sorted(maps.Keys(f.Kinds)) {
		text += ", " + f.Scheme + "-" + kind + "://"
	}
	return text + " or " + f.Scheme + "s://"
}

func (a *Address) setHosts(hosts string) error {
	port := a.Port
	switch {
	case a.Kind != "":
		port = a.Kinds[a.Kind]
	case a.Secure && a.SecurePort != "":
		port = a.SecurePort
	}
	for host := range strings.SplitSeq(hosts, ",") {
		name, p, err := net.SplitHostPort(host)
		if err != nil {
			name, p = strings.Trim(host, "[]"), port
			if strings.Contains(name, ":") && !strings.HasPrefix(host, "[") {
				return a.Errorf("a host in the URL has several colons; write an IPv6 address in brackets, [::1]:%s", port)
			}
		}
		if name == "" {
			return a.Errorf("a host is missing in the URL; write %s://host:%s", a.Scheme, port)
		}
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return a.Errorf("a port in the URL is not a number between 1 and 65535")
		}
		a.Hosts = append(a.Hosts, net.JoinHostPort(name, p))
	}
	return nil
}

// ReadParameters reads the parameters of the store, and those of TLS.
func (a *Address) ReadParameters(p Parameters) (err error) {
	var files TLSFiles
	all := files.Parameters()
	maps.Copy(all, p)
	if err = all.Read(a.Package, a.Query); err != nil {
		return err
	}
	if a.Secure {
		a.TLS, err = files.Config(a.Package)
		return err
	}
	if files != (TLSFiles{}) {
		return a.Errorf("the URL has tls_ parameters but no TLS; write %ss instead of %[1]s", a.Scheme)
	}
	return nil
}

// ErrMisplaced is the error of a URL with an @ where none belongs: the password holds a character
// that ends it, and what looks like a path or a parameter may be a part of it.
var ErrMisplaced = errors.New("the URL has an @ after the host; in a password write %2F for /, %3F for ? and %23 for #, elsewhere %40 for @")

// Misplaced reports whether a URL has an @ after the host, for URLs that another library reads.
func Misplaced(text string) bool {
	_, rest, _ := strings.Cut(text, "://")
	i := strings.IndexAny(rest, "/?#")
	return i >= 0 && strings.Contains(rest[i:], "@")
}
