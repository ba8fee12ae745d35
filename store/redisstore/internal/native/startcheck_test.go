// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// pretended is a client whose servers answer INFO with what a test wants, over as
// many connections as they are asked.
type pretended struct {
	rediscmd.Client
	sharded bool
	silent  atomic.Bool
	asked   atomic.Int32
	info    func(asked int) ([]any, error)
	eval    []any // what the script of Check answers after OK
}

func (p *pretended) Sharded() bool { return p.sharded }

func (p *pretended) Nodes(context.Context) ([]rediscmd.Node, error) {
	return []rediscmd.Node{{Addr: "a:1", Ask: func(_ context.Context, _ int, args ...string) ([]any, error) {
		switch args[0] {
		case "INFO":
			return p.info(int(p.asked.Add(1)))
		case "EVAL":
			return []any{append([]any{"OK"}, p.eval...)}, nil
		}
		return nil, errors.New("no TIME")
	}}}, nil
}

// ofRuns is INFO of a fit server, over connections that reach these runs of it.
func ofRuns(runs ...string) []any {
	var replies []any
	for _, run := range runs {
		text := "run_id:" + run + "\r\n"
		for name, value := range sound {
			text += name + ":" + value + "\r\n"
		}
		replies = append(replies, text)
	}
	return replies
}

func begun(t *testing.T, p *pretended, opts *Options) (*Store, error) {
	t.Helper()
	s, err := New(p, opts, nil)
	must.OK(t, err)
	return s, CheckAtStart(t.Context(), s)
}

// TestBeginReplaced: a server that is replaced while it is asked is no proxy.
func TestBeginReplaced(t *testing.T) {
	p := &pretended{info: func(asked int) ([]any, error) {
		if asked == 1 {
			return ofRuns("old", "new", "new"), nil
		}
		return ofRuns("new", "new", "new"), nil
	}}
	if _, err := begun(t, p, nil); err != nil {
		t.Error(err)
	}
	p = &pretended{info: func(int) ([]any, error) { return ofRuns("a", "b", "a"), nil }}
	if _, err := begun(t, p, nil); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "proxy") {
		t.Errorf("two servers at one address: got %v", err)
	}
}

// TestBeginOnce: a fit server is asked once, one that cannot be asked and one that is
// unfit each time. The former keeps no session from being opened: its own call will
// say what is wrong.
func TestBeginOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		info  func(int) ([]any, error)
		asked int32
		want  error
	}{
		"fit":    {func(int) ([]any, error) { return ofRuns(soundRun), nil }, 1, nil},
		"silent": {func(int) ([]any, error) { return nil, driver.ErrUnavailable }, 3, nil},
		"unfit":  {func(int) ([]any, error) { return ofRuns(""), nil }, 3, driver.ErrRefused},
	} {
		p := &pretended{info: tt.info}
		s, err := begun(t, p, nil)
		for range 2 {
			if !errors.Is(err, tt.want) {
				t.Errorf("%s: got %v, want %v", name, err, tt.want)
			}
			err = CheckAtStart(t.Context(), s)
		}
		if n := p.asked.Load(); n != tt.asked {
			t.Errorf("%s: asked %d times, want %d", name, n, tt.asked)
		}
	}
}

// TestBeginCluster: a node that does not answer concerns only some of the sessions,
// and they do not wait for it each time.
func TestBeginCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pretended{sharded: true}
		p.info = func(int) ([]any, error) {
			if p.silent.Load() {
				<-t.Context().Done()
			}
			return ofRuns(soundRun), nil
		}
		p.silent.Store(true)
		began := time.Now()
		s, err := begun(t, p, nil)
		for range 3 {
			if err != nil {
				t.Error(err)
			}
			err = CheckAtStart(t.Context(), s)
		}
		if took := time.Since(began); took != startBoundCluster {
			t.Errorf("sessions waited %v, want %v", took, startBoundCluster)
		}
		p.silent.Store(false)
		time.Sleep(startAgain)
		if err := CheckAtStart(t.Context(), s); err != nil || !s.start.over.Load() {
			t.Errorf("got %v, want the check to be over", err)
		}
	})
}

// TestBeginReports: what does not keep the store from working is reported, once for all
// sessions; what was accepted is not.
func TestBeginReports(t *testing.T) {
	var reported []string
	opts := &Options{Warn: func(f driver.Finding) { reported = append(reported, f.Code) }}
	p := &pretended{info: func(asked int) ([]any, error) {
		text := "run_id:a\r\nredis_version:7.0.0\r\nconnected_slaves:1\r\nmaxmemory_policy:allkeys-lru\r\n"
		if asked == 1 {
			return []any{text + "redis_mode:cluster"}, nil // refused
		}
		return []any{text}, nil
	}}
	s, err := begun(t, p, opts)
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), `add accept=cluster-client to the URL (Options.Accept)`) {
		t.Errorf("got %v", err)
	}
	if err := CheckAtStart(t.Context(), s); err != nil {
		t.Error(err)
	}
	if want := []string{"replicas-without-grace", "eviction"}; !slices.Equal(reported, want) {
		t.Errorf("reported %v, want %v", reported, want)
	}
	reported, opts.Accept = nil, []string{"eviction", "replicas-without-grace", "cluster-client"}
	p.asked.Store(0)
	if _, err := begun(t, p, opts); err != nil || reported != nil {
		t.Errorf("reported %v, %v, although all of it was accepted", reported, err)
	}
	if _, err := New(p, &Options{Accept: []string{"evictions"}}, nil); err == nil || !strings.Contains(err.Error(), "did you mean eviction?") {
		t.Errorf("a code that does not exist: got %v", err)
	}
}

// TestCheckOfScripts: what scripts may not call is found although the user may.
func TestCheckOfScripts(t *testing.T) {
	p := &pretended{info: func(int) ([]any, error) { return ofRuns(soundRun), nil }, eval: []any{int64(1), int64(-2), "INFO (ERR no)"}}
	s, err := New(p, nil, nil)
	must.OK(t, err)
	nodes, _ := p.Nodes(t.Context())
	var f facts
	err = s.permits(t.Context(), nodes[0], &f)
	if err != nil || !slices.Equal(f.forbidden, []string{"eval"}) || !slices.Equal(f.missing, []string{"evalsha"}) || !slices.Equal(f.unscripted, []string{"INFO (ERR no)"}) {
		t.Errorf("got %+v, %v", f, err)
	}
}

// TestBeginEnds: a caller with a short deadline does not wait for the check, and finds it
// done with its next call.
func TestBeginEnds(t *testing.T) {
	asking, answer := make(chan struct{}), make(chan struct{})
	p := &pretended{info: func(int) ([]any, error) {
		close(asking)
		<-answer
		return ofRuns(soundRun), nil
	}}
	s, err := New(p, nil, nil)
	must.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asking
		cancel()
	}()
	if err := CheckAtStart(ctx, s); !errors.Is(err, context.Canceled) || !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("got %v, want the context's error", err)
	}
	close(answer)
	if err := CheckAtStart(t.Context(), s); err != nil || p.asked.Load() != 1 {
		t.Errorf("got %v, asked %d times, want once", err, p.asked.Load())
	}
}
