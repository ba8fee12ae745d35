// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(config, "fencelock", "config")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
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

func TestSplitSettings(t *testing.T) {
	rest, s, err := splitSettings("redis://u:p@h/1?namespace=a%2Fb&pool_size=3&grace=true&max_ttl=90s&buckets=4&client_name=x&accept=clock,proxy")
	if err != nil || rest != "redis://u:p@h/1?pool_size=3&client_name=x" || s.namespace != "a/b" || !s.grace ||
		s.maxTTL != 90*time.Second || s.buckets != 4 || len(s.accept) != 2 {
		t.Errorf("got %q, %+v, %v", rest, s, err)
	}
	for _, bad := range []string{"grace=perhaps", "max_ttl=90", "buckets=x", "namespace=%zz"} {
		if _, _, err := splitSettings("redis://h?" + bad); exitCode(err) != exitUsage {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestEnginesRefuseWhatTheyIgnore: a parameter that does nothing is a mistake of whoever
// wrote it.
func TestEnginesRefuseWhatTheyIgnore(t *testing.T) {
	for _, url := range []string{
		"etcd://h?grace=true", "etcd://h?buckets=4", "etcd://h?accept=clock", "zk://h?grace=true", "zk://h?accept=clock",
		"memcached://h?accept=clock", "memcached://h?max_ttl=1m", "mem://?accept=clock", "mem://?buckets=3",
		"postgres://h/d?buckets=4", "mysql://h/d?buckets=4",
	} {
		if _, err := openStore(t.Context(), url, "", nil); exitCode(err) != exitUsage {
			t.Errorf("%s: %v", url, err)
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

func TestQuorumNodes(t *testing.T) {
	nodes, err := quorumNodes("quorums://ann:s%40x@a,b:7000,[::1]:7001/2")
	if err != nil || len(nodes) != 3 {
		t.Fatalf("%v, %v", nodes, err)
	}
	for i, want := range []string{"a:6379", "b:7000", "[::1]:7001"} {
		o := nodes[i].options
		if nodes[i].name != want || o.Addr != want || o.Username != "ann" || o.Password != "s@x" || o.DB != 2 || o.TLSConfig == nil {
			t.Errorf("%d: %s: %+v", i, nodes[i].name, o)
		}
	}
	for _, bad := range []string{"quorum://:secret@a,b/x", "quorum://a?pool_size=3"} {
		if _, err := quorumNodes(bad); exitCode(err) != exitUsage || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
