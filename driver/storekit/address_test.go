// SPDX-License-Identifier: Apache-2.0

package storekit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/fencelock/fencelock/internal/must"
)

// form has all that a Form can have.
var form = storekit.Form{Package: "xstore", Scheme: "x", Port: "1000", SecurePort: "2000", Kinds: map[string]string{"sentinel": "3000", "cluster": "1000"}}

func parse(text string) (*storekit.Address, error) {
	a, err := form.Parse(text)
	if err == nil {
		n := ""
		err = a.ReadParameters(storekit.Parameters{"namespace": storekit.Text(&n)})
	}
	return a, err
}

func TestParse(t *testing.T) {
	for url, want := range map[string]string{
		"x://h":                            `"" [h:1000] ""`,
		"x://h:1/2":                        `"" [h:1] "2"`,
		"x://u:p@h:1/a/b?namespace=n":      `u:p "" [h:1] "a/b"`,
		"x://:p%40%2F%3A%25@h":             `:p@/:% "" [h:1000] ""`,
		"x://u:a@b@h":                      `u:a@b "" [h:1000] ""`,
		"x://u:a#b@h":                      `u:a#b "" [h:1000] ""`,
		"x://u@h":                          `u "" [h:1000] ""`,
		"x://[::1]:7,[::1],h":              `"" [[::1]:7 [::1]:1000 h:1000] ""`,
		"xs://h":                           `tls() "" [h:2000] ""`,
		"xs://h:1?tls_server_name=n":       `tls(n) "" [h:1] ""`,
		"x-sentinel://a,b:2/mymaster/1":    `"sentinel" [a:3000 b:2] "mymaster/1"`,
		"xs-cluster://u:p@a?namespace=a/b": `u:p tls() "cluster" [a:1000] ""`,
	} {
		a, err := parse(url)
		must.OK(t, err)
		got := fmt.Sprintf("%q %v %q", a.Kind, a.Hosts, a.Path)
		if a.Secure != (a.TLS != nil) {
			t.Errorf("%s: secure is %v, TLS %v", url, a.Secure, a.TLS)
		}
		if a.TLS != nil {
			got = "tls(" + a.TLS.ServerName + ") " + got
		}
		if a.User != nil {
			user := a.User.Username()
			if pass, both := a.User.Password(); both {
				user += ":" + pass
			}
			got = user + " " + got
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
	}
}

// TestURLErrors: they begin with the package and say what to write, and never show a secret.
func TestURLErrors(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"", "the URL is empty; it begins with x://, x-cluster://, x-sentinel:// or xs://"},
		{"localhost:6379", "must begin with"},
		{"http://u:hunter2@h", "must begin with"},
		{"u:hunter2@h", "must begin with"},
		{"x-://u:hunter2@h", "must begin with"},
		{"x-other://u:hunter2@h", "must begin with"},
		{"x://", "a host is missing in the URL; write x://host:1000"},
		{"x://u:hunter2@", "a host is missing"},
		{"x://u:hunter2@a,b,", "a host is missing"},
		{"x://u:hunter2%zz@h", "write %25"},
		{"x://u:hunter2/@h", "write %2F"},
		{"x://u:hunter2?@h", "%3F for ?"},
		{"x://u:se@cret?hunter2@127.0.0.1:1/0", "write %2F"},
		{"x://u:p@ss/hunter2@127.0.0.1:1", "write %2F"},
		{"x://u:hunter2?x=y@127.0.0.1:1", "write %2F"},
		{"x://u:a@b?hunter2=@127.0.0.1:1", "write %2F"},
		{"x-sentinel://u:a@hunter2/x@127.0.0.1:1/m", "write %2F"},
		{"x://u:p@h/a@b?hunter2=1", "write %2F"},
		{"x://u:a@b?hunter2", "a parameter that is unknown"},
		{"x://h?namspace=hunter2", `the unknown parameter "namspace"; did you mean namespace?`},
		{"x://u:hunter2@h:port", "a port"},
		{"x://u:hunter2@h:70000", "a port"},
		{"x://u:hunter2@::1", "brackets, [::1]:1000"},
		{"x://h?namespace=hunter2;x=%", "name=value"},
		{"x://h?tls_ca=hunter2", "write xs instead of x"},
		{"xs://h?tls_ca=no-such-file", "tls_ca"},
		{"xs://h?tls_ca=doc.go", "no certificate"},
		{"xs://h?tls_cert=f", "go together"},
		{"xs://h?tls_cert=no-such-file&tls_key=no-such-file", "tls_cert and tls_key"},
	} {
		_, err := parse(tt.url)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "xstore: ") {
			t.Errorf("%s: got %v, want one that says %q", tt.url, err, tt.want)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows the secret: %v", tt.url, err)
		}
	}
}

// FuzzURL: whatever a password has in it, escaped or not, reading the URL does not panic, no error shows
// it, and it does not become the name of a host.
func FuzzURL(f *testing.F) {
	const secret = "hunter2"
	f.Fuzz(func(t *testing.T, before, after, tail string) {
		if strings.Contains(before+" "+after+" "+tail, secret) || strings.Contains(before+after+tail, "tls_") { // these name files to read
			return
		}
		for _, scheme := range []string{"x", "xs", "x-sentinel"} {
			text := scheme + "://u:" + before + secret + after + "@h" + tail
			a, err := parse(text)
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%q: the error shows the password: %v", text, err)
			}
			if err == nil && (slices.ContainsFunc(a.Hosts, func(h string) bool { return strings.Contains(h, secret) }) || strings.Contains(a.Path, secret)) {
				t.Errorf("%q: the password became a host or a path: %v, %q", text, a.Hosts, a.Path)
			}
		}
	})
}
