// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
)

func TestStoreFromFlagEnvironmentAndFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("HOME", dir)
	t.Setenv("FENCELOCK_STORE", "")
	t.Setenv("FENCELOCK_CONFIG", "")
	want := func(a *app, url string) {
		t.Helper()
		if got, err := a.urlOfStore(); err != nil || got != url {
			t.Errorf("got %q, %v, want %q", got, err, url)
		}
	}
	want(&app{}, "")
	config, err := os.UserConfigDir()
	must.OK(t, err)
	file := filepath.Join(config, "fencelock", "config")
	must.OK(t, os.MkdirAll(filepath.Dir(file), 0o700))
	write := func(file, text string) {
		t.Helper()
		must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write(file, "# ours\n\nstore = redis://a?x=y # no comment\n")
	want(&app{}, "redis://a?x=y # no comment")
	other := filepath.Join(dir, "other")
	write(other, "store=redis://b\n")
	t.Setenv("FENCELOCK_CONFIG", other)
	want(&app{}, "redis://b")
	t.Setenv("FENCELOCK_STORE", "redis://c")
	want(&app{}, "redis://c")
	want(&app{storeURL: "redis://d"}, "redis://d")
	t.Setenv("FENCELOCK_STORE", "")
	write(other, "stor = x\n")
	if _, err := (&app{}).urlOfStore(); exitCode(err) != exitUsage {
		t.Errorf("a wrong line: %v", err)
	}
	t.Setenv("FENCELOCK_CONFIG", filepath.Join(dir, "missing"))
	if _, err := (&app{}).urlOfStore(); exitCode(err) != exitUsage {
		t.Errorf("a missing file that was asked for: %v", err)
	}
}

// TestNamespaceFlagGoesIntoTheURL: it replaces the one that is there.
func TestNamespaceFlagGoesIntoTheURL(t *testing.T) {
	for raw, want := range map[string]string{
		"redis://u:p@h/1": "redis://u:p@h/1?namespace=a%2Fb",
		"redis://h?pool_size=3&namespace=x&grace=true": "redis://h?pool_size=3&grace=true&namespace=a%2Fb",
		"postgres://h/d?sslmode=disable&namespace=x&":  "postgres://h/d?sslmode=disable&namespace=a%2Fb",
	} {
		if got := withNamespace(raw, "a/b"); got != want {
			t.Errorf("%s became %s, want %s", raw, got, want)
		}
		if got := withNamespace(raw, ""); got != raw {
			t.Errorf("%s became %s without a flag", raw, got)
		}
	}
}

// TestHelpHasTheRegisteredSchemes: what help lists can be opened, and all that can be
// opened is listed.
func TestHelpHasTheRegisteredSchemes(t *testing.T) {
	var listed []string
	for _, e := range storeKinds {
		listed = append(listed, e.schemes...)
	}
	slices.Sort(listed)
	if got := driver.Schemes(); !slices.Equal(got, listed) {
		t.Errorf("registered are %v, listed are %v", got, listed)
	}
}

// TestStoresRejectWhatTheyIgnore: a parameter that does nothing is a mistake in the URL.
func TestStoresRejectWhatTheyIgnore(t *testing.T) {
	for _, url := range []string{
		"etcd://h?grace=true", "etcd://h?buckets=4", "etcd://h?accept=clock", "zk://h?grace=true", "zk://h?accept=clock",
		"memcached://h?accept=clock", "memcached://h?max_ttl=1m", "mem://?accept=clock", "mem://?buckets=3",
		"postgres://h/d?buckets=4", "mysql://h/d?buckets=4", "redis://h?migrate=true", "quorum://a,b,c?migrate=true",
		"redisson://h?grace=true", "redisson://h?namespace=x", "setnx://h?buckets=4", "setnx://a,b,c?max_ttl=1m",
	} {
		_, err := (&app{timeout: time.Second}).open(t.Context(), url, "")
		if exitCode(err) != exitUsage || !strings.Contains(err.Error(), "does nothing") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, bad := range []string{"grace=perhaps", "max_ttl=90", "buckets=x", "namespace=%zz", "namspace=x"} {
		for _, url := range []string{"redis://h?", "quorum://a,b,c?"} {
			if _, err := (&app{timeout: time.Second}).open(t.Context(), url+bad, ""); exitCode(err) != exitUsage {
				t.Errorf("%s: %v", url+bad, err)
			}
		}
	}
}

// TestDriversAreSilent: what goes to stderr is ours, one line for one error, and nothing
// with -q but that.
func TestDriversAreSilent(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://127.0.0.1:1", "redis-sentinel://127.0.0.1:1/m", "quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
		"mysql://root@127.0.0.1:1/d", "zk://127.0.0.1:1", "etcd://127.0.0.1:1", "memcached://127.0.0.1:1"} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			p := fencelockCLI(t, url, "-q", "--timeout", "2s", "run", "a", "--try", "--", "true")
			if out := p.err.String(); !strings.HasPrefix(out, "fencelock: ") || strings.Count(out, "\n") != 1 {
				t.Errorf("exit code %d, stderr: %s", p.code, out)
			}
		})
	}
}

// TestTimeoutCounts: --timeout bounds a call of every command, those that hold a lock
// too, and leaves room for a second renewal there.
func TestTimeoutCounts(t *testing.T) {
	a := &app{timeout: 5 * time.Second}
	for ttl, want := range map[time.Duration]time.Duration{0: 5 * time.Second, time.Minute: 5 * time.Second, 9 * time.Second: 3 * time.Second} {
		if got := a.callTimeout(ttl); got != want {
			t.Errorf("with a TTL of %v: got %v, want %v", ttl, got, want)
		}
	}
	t.Parallel()
	s := startRedis(t)
	fencelockCLI(t, s.url(), "ls", "--timeout", "0s").want(64)
	fencelockCLI(t, s.url(), "run", "a", "--timeout", "-1s", "--", "true").want(64)
	// The quorum is asked when a lock is wanted, not before.
	var links []string
	for range 3 {
		link := newProxy(t, s.addr)
		link.cut()
		links = append(links, link.addr)
	}
	began := time.Now()
	fencelockCLI(t, "quorum://"+strings.Join(links, ","), "run", "a", "--try", "--ttl", "1m", "--timeout", "300ms", "--", "true").want(69)
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v: a third of the TTL is 20s", took)
	}
}

// TestConfigurationThatOthersCanRead: a file with a password in it is for its user only.
func TestConfigurationThatOthersCanRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	t.Setenv("FENCELOCK_STORE", "")
	t.Setenv("FENCELOCK_CONFIG", file)
	for _, c := range []struct {
		url  string
		mode os.FileMode
		warn bool
	}{
		{"redis://:secret@host", 0o644, true},
		{"redis://ann:secret@a:1,b:2/0", 0o640, true},
		{"redis://ann:secret@host", 0o600, false},
		{"redis://ann@host:6379/0?x=a:b@c", 0o644, false},
		{"redis://host", 0o644, false},
	} {
		must.OK(t, os.WriteFile(file, []byte("store = "+c.url+"\n"), 0o600))
		must.OK(t, os.Chmod(file, c.mode))
		var b strings.Builder
		a := &app{err: &b}
		for range 2 { // a store that is away is opened again
			if got, err := a.urlOfStore(); err != nil || got != c.url {
				t.Errorf("got %q, %v", got, err)
			}
		}
		if n := strings.Count(b.String(), "chmod 600"); n != map[bool]int{true: 1}[c.warn] {
			t.Errorf("%s with mode %o: %q", c.url, c.mode, b.String())
		}
		if strings.Contains(b.String(), "secret") {
			t.Errorf("the password is shown: %s", b.String())
		}
	}
}
