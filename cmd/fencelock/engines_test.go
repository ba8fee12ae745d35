// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/internal/zktest"
)

// startSQL starts a database for the length of a test and returns where it listens.
func startSQL(t *testing.T, start func(settings ...string) (*servers.Server, error), settings ...string) string {
	t.Helper()
	s, err := start(settings...)
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s.Addr
}

// TestDatabaseIsChecked: tables that are missing and a database that forgets are told
// with what to do, and nothing is run.
func TestDatabaseIsChecked(t *testing.T) {
	t.Parallel()
	url := fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", startSQL(t, servers.Postgres, "fsync=off"))
	contains(t, fencelockCLI(t, url, "run", "a", "--", "echo", "ran").want(exitInternal).err.String(), "migrate=true")
	p := fencelockCLI(t, url+"&migrate=true", "run", "a", "--", "echo", "ran").want(exitInternal)
	contains(t, p.err.String(), "fsync is off", "accept=fsync")
	if out := p.out.String(); out != "" {
		t.Errorf("it ran: %q", out)
	}
	contains(t, fencelockCLI(t, url+"&accept=fsync", "run", "a", "--", "echo", "ran").want(0).out.String(), "ran")
	contains(t, fencelockCLI(t, url, "doctor").want(exitFailed).out.String(), "fsync is off")
}

// TestEngines: run, ls and doctor work on every engine that does not live in one
// process.
func TestEngines(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) string{
		"redis": func(t *testing.T) string { return startRedis(t).url() },
		"etcd": func(t *testing.T) string {
			if _, err := exec.LookPath("etcd"); err != nil {
				t.Skip("etcd is not installed; on Debian: apt-get install etcd-server etcd-client")
			}
			return "etcd://" + startEtcd(t)
		},
		"quorum": func(t *testing.T) string {
			a, b, c := startRedis(t), startRedis(t), startRedis(t)
			return "quorum://" + strings.Join([]string{a.addr, b.addr, c.addr}, ",")
		},
		"postgres": func(t *testing.T) string {
			return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&migrate=true", startSQL(t, servers.Postgres))
		},
		"mysql": func(t *testing.T) string {
			return fmt.Sprintf("mysql://root@%s/test?migrate=true", startSQL(t, servers.MariaDB))
		},
		"zk": func(t *testing.T) string {
			if why := zktest.Missing(); why != "" {
				t.Skip(why)
			}
			e, err := zktest.Start(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(e.Stop)
			return "zk://" + e.Servers[0].Addr
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t)
			path, err := binary()
			if err != nil {
				t.Fatal(err)
			}
			p := fencelockCLI(t, url, "run", "a", "--reason", "why not", "--", "sh", "-c", path+" ls; "+path+" run a --try -- true; exit 3").want(3)
			contains(t, p.out.String(), "why not")
			contains(t, p.err.String(), "is held by")
			contains(t, fencelockCLI(t, url, "doctor").want(0).out.String(), "taken and given back", "What is promised")
		})
	}
}
