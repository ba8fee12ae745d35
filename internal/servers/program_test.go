// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

// TestVariables: the variable of a server comes before the path, and one that names
// nothing is an error with its name, for which no test skips.
func TestVariables(t *testing.T) {
	dir := t.TempDir()
	for _, p := range programs {
		file := filepath.Join(dir, p.variable)
		t.Setenv(p.variable, file)
		if _, err := p.find(); err == nil || errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), p.variable) {
			t.Errorf("%s names nothing: %v", p.variable, err)
		}
		write(t, file)
		if got, err := p.find(); got != file || err != nil {
			t.Errorf("%s names %s, but found %s, %v", p.variable, file, got, err)
		}
	}
}

// TestStartersUseVariables: every kind of server is started from its variable.
func TestStartersUseVariables(t *testing.T) {
	for variable, start := range map[string]func() error{
		"POSTGRES":      func() error { _, err := Postgres(); return err },
		"PGBOUNCER":     func() error { _, err := new(Server).Pgbouncer(); return err },
		"MARIADBD":      func() error { _, err := MariaDB(); return err },
		"MYSQLD":        func() error { _, err := MySQL(); return err },
		"REDIS_SERVER":  func() error { _, err := Redis.Start(); return err },
		"VALKEY_SERVER": func() error { _, err := Valkey.Start(); return err },
		"ETCD":          func() error { _, err := Etcd(1); return err },
		"ZOOKEEPER":     func() error { _, err := ZooKeeper(1); return err },
		"MEMCACHED":     func() error { _, err := Memcached(); return err },
		"VERSITYGW":     func() error { _, err := S3(); return err },
	} {
		t.Setenv(variable, filepath.Join(t.TempDir(), "none"))
		if err := start(); err == nil || !strings.Contains(err.Error(), variable) {
			t.Errorf("%s names nothing: %v", variable, err)
		}
	}
}

// TestVariablesAreDocumented: the README lists the variable of every server.
func TestVariablesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("README.md")
	must.OK(t, err)
	for _, p := range programs {
		if !strings.Contains(string(text), "| `"+p.variable+"` |") {
			t.Errorf("README.md does not list %s", p.variable)
		}
	}
}

// TestBeside: a tool of the same version comes before that of the path.
func TestBeside(t *testing.T) {
	dir := t.TempDir()
	server := filepath.Join(dir, "sbin", "server")
	write(t, server)
	if got := beside(server, "tool"); got != "tool" {
		t.Errorf("found %s where nothing is", got)
	}
	for _, f := range []string{"scripts", "bin", "sbin"} {
		tool := filepath.Join(dir, f, "tool")
		write(t, tool)
		if got := beside(server, "tool"); got != tool {
			t.Errorf("found %s, want %s", got, tool)
		}
	}
}

func write(t *testing.T, file string) {
	t.Helper()
	must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o755)))
}
