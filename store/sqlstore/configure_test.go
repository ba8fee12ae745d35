// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// TestConfigure: a setting becomes weaker only if no open session asks for more. A bad name or value
// is an error, and tables that are not set up are refused.
func TestConfigure(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		n := newNamespace(t, k, server)
		s := n.process(false, 0)
		fails := func(name, value, says string, refused bool) {
			t.Helper()
			if err := s.Configure(ctxb, name, value); err == nil || errors.Is(err, driver.ErrRefused) != refused || !strings.Contains(err.Error(), says) {
				t.Errorf("%s=%s: got %v, want an error that says %q", name, value, err, says)
			}
		}
		fails("grace", "true", "not set up", true)
		n.old()
		graceful, long, dead := n.session(n.process(true, 20*time.Second), 15*time.Second), n.session(n.process(false, 50*time.Second), 15*time.Second), n.session(n.process(false, 0), 45*time.Second)
		fails("max_ttl", "20s", "2 open sessions ask for more; deploy their processes with max_ttl=20s first, then repeat this", true)
		fails("grace", "false", "1 open sessions ask for more; deploy their processes with grace=false first, then repeat this", true)
		fails("max_ttl", "1ms", "at least 1s", false)
		fails("grace", "perhaps", "true or false", false)
		fails("poll", "true", "grace and max_ttl", false)
		n.wantSettings(s, "nothing changed", "true", "50s")
		must.OK(t, long.Close(ctxb))
		must.OK(t, exec(n.db, "UPDATE "+n.opts.Prefix()+"session SET ends = 0 WHERE ttl = 45000000"))
		must.OK(t, s.Configure(ctxb, "max_ttl", "20s"))
		n.wantSettings(s, "lowered", "true", "20s")
		must.OK(t, exec(n.db, "UPDATE "+n.opts.Prefix()+"session SET ends = ends + 9000000000000000 WHERE ttl = 45000000")) // a clock that is set back
		if _, err := dead.KeepAlive(ctxb); !errors.Is(err, driver.ErrGone) {
			t.Errorf("a session that had ended: %v, want ErrGone", err)
		}
		must.OK(t, graceful.Close(ctxb))
		must.OK(t, s.Configure(ctxb, "max_ttl", "30s"))
		n.wantSettings(s, "raised", "true", "30s")
		must.OK(t, s.Configure(ctxb, "grace", "false"))
		n.wantSettings(s, "switched off", "false", "30s")
		must.OK(t, s.Configure(ctxb, "grace", "true"))
		n.wantSettings(s, "switched on", "true", "30s")
		must.OK(t, s.Configure(ctxb, "grace", "false"))
		n.takeOver()
		n.wantGrace(n.process(false, 0), "without grace", 0, 0)
	})
}

// TestLoweringBesideOpen: no session is open that asks for more than the tables have, while sessions are
// opened and max_ttl is lowered at the same time.
func TestLoweringBesideOpen(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		n := newNamespace(t, k, server)
		ctx, cancel := context.WithTimeout(ctxb, time.Minute)
		defer cancel()
		var openers sync.WaitGroup
		ended := make(chan struct{})
		for range 4 {
			s := n.process(false, time.Minute)
			openers.Go(func() {
				for range 40 {
					ss, _, err := s.Open(ctx, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 50 * time.Second})
					if err == nil {
						_, err = ss.KeepAlive(ctx)
						err = errors.Join(err, ss.Close(ctx))
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		go func() { openers.Wait(); close(ended) }()
		s := n.process(false, time.Minute)
		lowered := 0
		for running := true; running; {
			if err := s.Configure(ctx, "max_ttl", "15s"); err == nil {
				lowered++
			} else if !errors.Is(err, driver.ErrRefused) {
				t.Error(err)
			}
			var longer int // both of one moment
			must.OK(t, n.db.QueryRow("SELECT count(*) FROM "+n.opts.Prefix()+"session s JOIN "+n.opts.Prefix()+"incarnation m ON ABS(s.declared) > m.max_ttl").Scan(&longer))
			if longer > 0 {
				t.Errorf("%d sessions ask for more than the tables have", longer)
			}
			select {
			case <-ended:
				running = false
			default:
			}
		}
		t.Logf("lowered %d times", lowered)
	})
}

// TestRaisingBesideSwitchingOff: one operator raises max_ttl, and another one switches grace off meanwhile. Grace stays off.
func TestRaisingBesideSwitchingOff(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		n := newNamespace(t, k, server)
		n.old()
		must.OK(t, n.session(n.process(true, 0), time.Second).Close(ctxb))
		b := k.behind(t, server)
		s := k.store(t, k.connect(t, b.proxy.Port), &n.opts)
		var once sync.Once
		b.proxy.Filter(func(_ int, toServer bool, data []byte) bool {
			if toServer && bytes.Contains(data, []byte("fencelock strengthen */")) {
				once.Do(func() { must.OK(t, n.process(false, 0).Configure(ctxb, "grace", "false")) })
			}
			return true
		})
		must.OK(t, s.Configure(ctxb, "max_ttl", "30s"))
		n.wantSettings(s, "after both", "false", "30s")
	})
}

// TestOpenWaitsForLowering: a session is not opened by settings that are being changed.
func TestOpenWaitsForLowering(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		n := newNamespace(t, k, server)
		s := n.process(false, time.Minute)
		ss := n.session(s, 50*time.Second)
		must.OK(t, ss.Close(ctxb))
		tx, err := n.db.BeginTx(ctxb, nil)
		must.OK(t, err)
		_, err = tx.ExecContext(ctxb, "UPDATE "+n.opts.Prefix()+"incarnation SET max_ttl = 15000000")
		must.OK(t, err)
		ctx, cancel := context.WithTimeout(ctxb, 500*time.Millisecond)
		defer cancel()
		if _, _, err := s.Open(ctx, driver.OpenRequest{Shard: "0", ID: driver.NewSessionID(), TTL: 50 * time.Second}); err == nil {
			t.Error("a session was opened meanwhile")
		}
		must.OK(t, tx.Commit())
		n.session(s, 50*time.Second)
		n.wantSettings(s, "after it", "false", "1m0s")
	})
}

// TestWeakenedBesideOpen: the settings became weaker after a process has read them, and before its session is
// opened. It asks for them again.
func TestWeakenedBesideOpen(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		for _, weaker := range []string{"grace = 0", "max_ttl = 1000000"} {
			n := newNamespace(t, k, server)
			n.old()
			must.OK(t, n.session(n.process(true, 50*time.Second), time.Second).Close(ctxb))
			b := k.behind(t, server)
			opts := n.opts
			opts.Grace, opts.MaxTTL = true, 50*time.Second
			s := k.store(t, k.connect(t, b.proxy.Port), &opts)
			var once sync.Once
			b.proxy.Filter(func(_ int, toServer bool, data []byte) bool {
				if toServer && bytes.Contains(data, []byte("fencelock open */")) {
					once.Do(func() { n.set(weaker) })
				}
				return true
			})
			n.session(s, time.Second)
			n.wantSettings(s, weaker, "true", "50s")
		}
	})
}

// TestBegin: tables that are set up as new have no grace period. Tables that were used are refused.
func TestBegin(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, k kind, server *servers.Server) {
		n := newNamespace(t, k, server)
		s := n.process(true, 0)
		must.OK(t, n.process(true, 0).Begin(ctxb))
		n.wantSettings(s, "begun", "true", "15s")
		attempt(t, n.session(s, 15*time.Second), plain(1, "x"), driver.Granted)
		if err := s.Begin(ctxb); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("begun twice: %v, want ErrRefused", err)
		}
		must.OK(t, exec(n.db, "DELETE FROM "+n.opts.Prefix()+"incarnation")) // as after a restored backup
		if err := s.Begin(ctxb); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("with rows of locks: %v, want ErrRefused", err)
		}
	})
}
