// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/internal/storetest"
	"github.com/fencelock/fencelock/store/sqlstore"
)

// TestMySQLOverTLS: the TLS parameters of a URL, with a server that accepts nothing else. What is wrong with a connection is
// in the error.
func TestMySQLOverTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, err := servers.SelfSigned(dir)
	must.OK(t, err)
	must.OK(t, errors.Join(os.Chmod(cert, 0o644), os.Chmod(key, 0o644), os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755))) // the server runs as another user
	server := servers.Test(t, func() (*servers.Server, error) {
		return servers.MariaDB("ssl-cert="+cert, "ssl-key="+key, "ssl-ca="+cert, "require-secure-transport=ON")
	})
	url := fmt.Sprintf("mysql://root@127.0.0.1:%d/test?migrate=true", server.Port)
	store, err := sqlstore.Open(t.Context(), url+"&tls=true&tls_ca="+cert+"&tls_cert="+cert+"&tls_key="+key, nil)
	must.OK(t, err)
	defer store.Close()
	locks, err := fencelock.New(store, nil)
	storetest.Runs(t, locks, err)
	storetest.Refused(t, storetest.ByURL(t), map[string]string{
		url:                               "Access denied",
		url + "&tls=true":                 "certificate is not trusted",
		url + "&tls=true&tls_ca=/nowhere": "tls_ca",
		url + "&tls=true&tls_server_name=h&tls_ca=" + cert: "another name",
	})
}
