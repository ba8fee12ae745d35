// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	contains(t, fencelockCLI(t, s.url(), "doctor").want(0).out.String(),
		"acquired and released a lock", "Guarantees on redis", "NOTE     data-loss", "grace=true")
	p := fencelockCLI(t, s.url(), "doctor", "--correctness").want(1)
	contains(t, p.out.String(), "DANGER   data-loss", "grace=true")
	p = fencelockCLI(t, s.url()+"?grace=true&namespace=g", "doctor", "--correctness", "-o", "json").want(0)
	var d diagnosis
	must.OK(t, json.Unmarshal([]byte(p.out.String()), &d))
	if !d.OK || d.Server != "redis" || d.Guarantees.Fencing != "strict" || d.Guarantees.TTLMS != 15000 || len(d.Findings) != 1 || d.Findings[0].Code != "grace" {
		t.Errorf("a new namespace with grace: %+v", d)
	}
	// Another number of buckets than that of a namespace in use is refused, not let in.
	if _, err := s.client(t, nil).Mutex("a").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	contains(t, fencelockCLI(t, s.url()+"?buckets=4", "doctor").want(1).out.String(), "DANGER   lock", "add buckets=1 to the URL")
	contains(t, fencelockCLI(t, "mem://", "doctor").want(1).out.String(), "one-process", "redis://")
	fencelockCLI(t, s.url(), "doctor", "--fail-on", "nonsense").want(64)
	fencelockCLI(t, "redis://127.0.0.1:1", "doctor").want(69)
}

// TestDoctorFinds: what the server's own check finds is shown, and a server on which
// locks cannot work is refused by run, too.
func TestDoctorFinds(t *testing.T) {
	t.Parallel()
	s := startRedis(t, "--maxmemory-policy", "allkeys-lru")
	fencelockCLI(t, s.url(), "doctor").want(0)
	p := fencelockCLI(t, s.url(), "doctor", "--fail-on", "warning").want(1)
	contains(t, p.out.String(), "WARNING  eviction", s.addr, "change: ")
	if p.err.String() != "" {
		t.Errorf("said twice: %s", p.err.String())
	}
	contains(t, fencelockCLI(t, s.url(), "run", "a", "--", "true").want(0).err.String(), "eviction")
	if p := fencelockCLI(t, s.url()+"?accept=eviction", "run", "a", "--", "true").want(0); p.err.String() != "" {
		t.Errorf("accepted, and said all the same: %s", p.err.String())
	}
	s = startRedis(t, "--cluster-enabled", "yes", "--cluster-port", freePort(t))
	p = fencelockCLI(t, s.url(), "doctor", "-o", "json").want(1)
	contains(t, p.out.String(), "cluster-client", `"ok": false`)
	contains(t, fencelockCLI(t, s.url(), "doctor").want(1).out.String(), "DANGER   refused")
	contains(t, fencelockCLI(t, s.url(), "run", "a", "--", "true").want(64).err.String(), "redis-cluster", "cluster-client")
}

// TestDoctorOfAQuorum: every server is asked; of one that does not answer that is said,
// and what the others said stands.
func TestDoctorOfAQuorum(t *testing.T) {
	t.Parallel()
	a, b, c := startRedis(t, "--maxmemory-policy", "allkeys-lru"), startRedis(t), startRedis(t)
	url := "quorum://" + strings.Join([]string{a.addr, b.addr, c.addr}, ",")
	contains(t, fencelockCLI(t, url, "doctor").want(0).out.String(), "WARNING  eviction ("+a.addr+")", "acquired and released a lock")
	b.Kill()
	p := fencelockCLI(t, url, "doctor", "--timeout", "2s").want(0)
	contains(t, p.out.String(), "eviction ("+a.addr+")", "WARNING  unreachable ("+b.addr+")", "1 of 3", "acquired and released a lock")
	c.Kill()
	p = fencelockCLI(t, url, "doctor", "--timeout", "2s").want(69)
	contains(t, p.out.String(), "eviction ("+a.addr+")", "DANGER   unreachable ("+b.addr+")", "2 of 3", "DANGER   lock")
}

// TestDoctorPinsNoSettings: after doctor has checked an empty server its own advice can
// be followed.
func TestDoctorPinsNoSettings(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	contains(t, fencelockCLI(t, s.url(), "doctor", "--correctness").want(exitFailed).out.String(), "add grace=true")
	fencelockCLI(t, s.url()+"?grace=true&max_ttl=3s", "run", "a", "--ttl", "3s", "--", "true").want(0)
}

// TestDoctorFixesNoBuckets: the number of buckets of a namespace cannot be changed, so doctor
// does not use one that no program has used.
func TestDoctorFixesNoBuckets(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	out := fencelockCLI(t, s.url()+"?buckets=4", "doctor").want(0).out.String()
	contains(t, out, "NOTE     unused", "start a program that uses it")
	if strings.Contains(out, "acquired and released a lock") {
		t.Error(out)
	}
	fencelockCLI(t, s.url()+"?buckets=8", "run", "a", "--", "true").want(0)
	contains(t, fencelockCLI(t, s.url()+"?buckets=8", "doctor").want(0).out.String(), "acquired and released a lock")
}

// TestReadingNeedsNoSettings: an operator who knows the host and the namespace sees and
// breaks the locks of an application, whatever its settings, and run is not refused for them.
func TestReadingNeedsNoSettings(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	app := s.url() + "?namespace=svc&max_ttl=10s"
	job := begin(t, app, "run", "job", "--ttl", "10s", "--", "sleep", "60")
	operator := s.url() + "?namespace=svc"
	until(t, "ls shows the job", func() bool {
		return strings.Contains(fencelockCLI(t, operator, "ls", "-o", "name").want(0).out.String(), "job")
	})
	contains(t, fencelockCLI(t, operator, "why", "job").want(0).out.String(), "held by 1")
	fencelockCLI(t, operator, "why", "job").want(0)
	fencelockCLI(t, operator, "run", "other", "--try", "--", "true").want(0)
	var v whyJSON
	if err := json.Unmarshal([]byte(fencelockCLI(t, operator, "why", "job", "-o", "json").want(0).out.String()), &v); err != nil || len(v.Locks) != 1 || len(v.Locks[0].Holders) != 1 {
		t.Fatalf("%v, %+v", err, v)
	}
	fencelockCLI(t, operator, "break", "job", "--token", fmt.Sprint(v.Locks[0].Holders[0].Token), "--reason", "test").want(0)
	job.want(exitLost)
}

// TestReadingIsNotRefusedForFindings: a server on which locks are unsafe is when an operator
// needs to see them. What is no store of locks is refused.
func TestReadingIsNotRefusedForFindings(t *testing.T) {
	t.Parallel()
	s := startRedis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	unsafe := s.url() + "?grace=true&max_ttl=4s" // not shorter: a busy machine renews late
	job := begin(t, unsafe+"&accept=eviction", "run", "job", "--ttl", "4s", "--", "sleep", "60")
	until(t, "the job runs", func() bool {
		return strings.Contains(fencelockCLI(t, unsafe, "why", "job").want(0).out.String(), "held by 1")
	})
	contains(t, fencelockCLI(t, unsafe, "ls", "-o", "name").want(0).out.String(), "job")
	p := fencelockCLI(t, unsafe, "why", "job", "-o", "json").want(0)
	contains(t, p.err.String(), "allkeys-lru", "accept=eviction")
	fencelockCLI(t, unsafe, "why", "job").want(0)
	contains(t, fencelockCLI(t, unsafe, "run", "other", "--try", "--", "true").want(exitUsage).err.String(), "accept=eviction")
	fencelockCLI(t, unsafe, "acquire", "other", "--try").want(exitUsage)
	fencelockCLI(t, unsafe, "doctor").want(exitFailed)
	var v whyJSON
	if err := json.Unmarshal([]byte(p.out.String()), &v); err != nil || len(v.Locks) != 1 || len(v.Locks[0].Holders) != 1 {
		t.Fatalf("%v, %+v", err, v)
	}
	fencelockCLI(t, unsafe, "break", "job", "--token", fmt.Sprint(v.Locks[0].Holders[0].Token), "--reason", "test").want(0)
	job.want(exitLost)
}

// TestDoctorHidesNoLockError: only a danger with the same reason stands for it.
func TestDoctorHidesNoLockError(t *testing.T) {
	err := errors.New("lock: the disk is full: refused")
	for _, c := range []struct {
		f    driver.Finding
		want bool
	}{
		{driver.Finding{Severity: driver.Danger, Reason: "the disk is full"}, true},
		{driver.Finding{Severity: driver.Warning, Reason: "the disk is full"}, false},
		{driver.Finding{Severity: driver.Danger, Reason: "another reason"}, false},
		{driver.Finding{Severity: driver.Danger}, false},
	} {
		if got := explained([]driver.Finding{c.f}, err); got != c.want {
			t.Errorf("%+v: got %t", c.f, got)
		}
	}
}
