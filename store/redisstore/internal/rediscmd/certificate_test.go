// SPDX-License-Identifier: Apache-2.0

package rediscmd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver"
)

// TestFailedNamesWhatIsWrongWithTheCertificate: a CA does not help against a wrong name.
func TestFailedNamesWhatIsWrongWithTheCertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for want, config := range map[string]*tls.Config{
		"tls_ca=FILE":          {ServerName: "127.0.0.1"},
		"tls_server_name=NAME": {ServerName: "other", RootCAs: roots},
	} {
		_, err := tls.Dial("tcp", server.Listener.Addr().String(), config)
		if err == nil {
			t.Fatalf("%s: connected", want)
		}
		failed := Failed(t.Context(), err)
		if !errors.Is(failed, driver.ErrUnavailable) || strings.Count(failed.Error(), "in the URL") != 1 || !strings.Contains(failed.Error(), want) {
			t.Errorf("got %v, want %s", failed, want)
		}
	}
}
