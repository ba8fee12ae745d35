// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/otelfencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// request starts a span of the program, as a server does for a request.
func (p *process) request(name string) (context.Context, trace.Span) {
	return p.traces.Tracer("test").Start(context.Background(), name)
}

// span returns the one span of that name that has ended.
func (p *process) span(t *testing.T, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	synctest.Wait()
	var found []sdktrace.ReadOnlySpan
	var names []string
	for _, s := range p.spans.Ended() {
		names = append(names, s.Name())
		if s.Name() == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans %q have ended, want one; all: %q", len(found), name, names)
	}
	return found[0]
}

func attr(attrs []attribute.KeyValue, key string) string {
	for _, kv := range attrs {
		if string(kv.Key) == key {
			return kv.Value.String()
		}
	}
	return ""
}

// wantLink wants that the span links to one span of the other trace.
func wantLink(t *testing.T, s sdktrace.ReadOnlySpan, to trace.Span) {
	t.Helper()
	links := s.Links()
	if len(links) != 1 || links[0].SpanContext.TraceID() != to.SpanContext().TraceID() {
		t.Errorf("%q has links %v, want one to trace %v", s.Name(), links, to.SpanContext().TraceID())
	} else if owner := attr(links[0].Attributes, "fencelock.holder"); owner != "them" {
		t.Errorf("the link names %q, want them", owner)
	}
}

func TestWaiterLinksToTheTraceOfTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		them := newProcess(t, store, &fencelock.Options{Owner: "them"}, nil)
		us := newProcess(t, store, nil, &otelfencelock.Options{Class: otelfencelock.Template})
		theirCtx, theirs := them.request("their request")
		held := lock(t, theirCtx, them.Client, "orders/42")

		ctx, root := us.request("our request")
		got := make(chan *fencelock.Lease)
		go func() {
			l, err := us.Mutex("orders/42").Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		time.Sleep(4 * time.Second)
		unlock(t, held)
		l := <-got
		s := us.span(t, "acquire orders/{id}")
		wantLink(t, s, theirs)
		if s.Parent().SpanID() != root.SpanContext().SpanID() || s.SpanKind() != trace.SpanKindClient {
			t.Errorf("acquire is a %v below %v, want a client span below the request", s.SpanKind(), s.Parent().SpanID())
		}
		if took := s.EndTime().Sub(s.StartTime()).Round(time.Second); took != 4*time.Second {
			t.Errorf("acquire took %v, want 4s", took)
		}
		for key, want := range map[string]string{"fencelock.lock": "orders/42", "fencelock.store": "memory",
			"fencelock.outcome": "acquired", "fencelock.token": l.Token().String(), "fencelock.try": "false"} {
			if v := attr(s.Attributes(), key); v != want {
				t.Errorf("%s is %q, want %q", key, v, want)
			}
		}
		if ev := s.Events(); len(ev) != 1 || ev[0].Name != "queued" || attr(ev[0].Attributes, "fencelock.holder") != "them" {
			t.Errorf("got events %v, want queued behind them", ev)
		}

		time.Sleep(time.Second)
		unlock(t, l)
		h := us.span(t, "hold orders/{id}")
		if h.Parent().SpanID() != root.SpanContext().SpanID() || h.SpanKind() != trace.SpanKindInternal ||
			attr(h.Attributes(), "fencelock.end") != "released" || h.EndTime().Sub(h.StartTime()).Round(time.Second) != time.Second {
			t.Errorf("hold is not what it should be: %v", h)
		}
	})
}

func TestRefusedTryLinksToTheTraceOfTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		them := newProcess(t, store, &fencelock.Options{Owner: "them"}, nil)
		us := newProcess(t, store, nil, nil)
		theirCtx, theirs := them.request("their request")
		held := lock(t, theirCtx, them.Client, "x")
		if _, err := us.Mutex("x").TryLock(context.Background()); !errors.Is(err, fencelock.ErrBusy) {
			t.Fatal(err)
		}
		unlock(t, held)
		s := us.span(t, "acquire")
		wantLink(t, s, theirs)
		if s.Status().Code == codes.Error || attr(s.Attributes(), "fencelock.outcome") != "busy" {
			t.Errorf("busy is an answer, no error: %v %v", s.Status(), s.Attributes())
		}
	})
}

// What is in the store was written by others.
func TestGarbageInTheRecordMakesNoLink(t *testing.T) {
	for _, garbage := range []string{"", "x", "00-00000000000000000000000000000000-0000000000000000-01", "00-zz"} {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New(nil)
			other, err := fencelock.New(store, &fencelock.Options{Owner: "them",
				Hooks: fencelock.Hooks{TraceParent: func(context.Context) string { return garbage }}})
			must.OK(t, err)
			held := lock(t, context.Background(), other, "x")
			us := newProcess(t, store, nil, nil)
			short, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if _, err := us.Mutex("x").Lock(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			s := us.span(t, "acquire")
			if len(s.Links()) != 0 || len(s.Events()) != 1 {
				t.Errorf("%q: got links %v and events %v, want none and one", garbage, s.Links(), s.Events())
			}
			if s.Status().Code != codes.Error || attr(s.Attributes(), "error.type") != "timeout" {
				t.Errorf("a timeout is %v %v, want an error", s.Status(), s.Attributes())
			}
			unlock(t, held)
			if err := other.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHoldSpanReportsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memstore.New(nil), nil, nil)
		ended(t, lock(t, context.Background(), p.Client, "x", fencelock.MaxHold(time.Minute)))
		s := p.span(t, "hold")
		if s.Status().Code != codes.Error || attr(s.Attributes(), "fencelock.end") != "lost" {
			t.Errorf("the span of a lost lease has %v and %v", s.Status(), s.Attributes())
		}
		if ev := s.Events(); len(ev) != 1 || ev[0].Name != "lost" || attr(ev[0].Attributes, "fencelock.reason") != "expired" {
			t.Errorf("got events %v, want lost, expired", ev)
		}
	})
}

func TestHooksOfTheProgramAreCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var got []string
		note := func(s string) { got = append(got, s) }
		store := memstore.New(nil)
		p := newProcess(t, store, &fencelock.Options{Hooks: fencelock.Hooks{
			AcquireStart: func(ctx context.Context, _ fencelock.AcquireStart) context.Context {
				note("start")
				return context.WithValue(ctx, key{}, "ours")
			},
			AcquireWait: func(ctx context.Context, _ fencelock.AcquireWait) { note("wait " + ctx.Value(key{}).(string)) },
			AcquireEnd:  func(ctx context.Context, _ fencelock.AcquireEnd) { note("end " + ctx.Value(key{}).(string)) },
			Event: func(e fencelock.Event) {
				if e.Name != "" {
					note(e.Kind.String())
				}
			},
			TraceParent: func(context.Context) string { return "of the program" },
		}}, nil)
		ctx := context.Background()
		unlock(t, lock(t, ctx, p.Client, "x"))
		theirs := lock(t, ctx, newProcess(t, store, nil, nil).Client, "x")
		time.AfterFunc(time.Second, func() { unlock(t, theirs) })
		l := lock(t, ctx, p.Client, "x")
		st, err := p.Inspect(ctx, "x")
		if err != nil || len(st.Holders) != 1 || st.Holders[0].Record.Trace != "of the program" {
			t.Errorf("got %v, %v, want the trace that the program gave", st, err)
		}
		unlock(t, l)
		want := []string{"start", "lease granted", "end ours", "lease released",
			"start", "lease waiting", "wait ours", "lease granted", "end ours", "lease released"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
