// SPDX-License-Identifier: Apache-2.0

package storekit_test

import (
	"bytes"
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// TestReplacedCertificateIsUsed: a process that runs for longer than its certificate is valid uses the next one as soon as it is there, and
// the last one while the files do not fit.
func TestReplacedCertificateIsUsed(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	at := time.Now()
	replace := func(file, by string) {
		t.Helper()
		text, err := os.ReadFile(by)
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if at = at.Add(time.Second); err == nil {
			err = os.Chtimes(file, at, at) // the clock of a file system may be coarse
		}
		must.OK(t, err)
	}
	made := func() (cert, key string, leaf []byte) {
		t.Helper()
		cert, key, err := servers.SelfSigned(t.TempDir())
		must.OK(t, err)
		pair, err := tls.LoadX509KeyPair(cert, key)
		must.OK(t, err)
		return cert, key, pair.Certificate[0]
	}
	firstCert, firstKey, first := made()
	replace(cert, firstCert)
	replace(key, firstKey)
	config, err := storekit.TLSFiles{Cert: cert, Key: key}.Config("x")
	must.OK(t, err)
	used := func(want []byte, when string) {
		t.Helper()
		got, err := config.GetClientCertificate(nil)
		if err != nil || !bytes.Equal(got.Certificate[0], want) {
			t.Errorf("%s: another certificate is used, %v", when, err)
		}
	}
	used(first, "at first")
	nextCert, nextKey, next := made()
	replace(cert, nextCert)
	used(first, "while the key is of the last one")
	replace(key, nextKey)
	used(next, "when both were replaced")
	must.OK(t, os.Remove(cert))
	used(next, "while a file is missing")
}
