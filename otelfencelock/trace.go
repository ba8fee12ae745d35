// SPDX-License-Identifier: Apache-2.0

package otelfencelock

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencelock/fencelock"
)

// telemetry is what the hooks of one client share.
type telemetry struct {
	m      *meters
	tracer trace.Tracer
	user   fencelock.Hooks // of the program; called first
}

// acquisition is what a context carries from the start of an acquisition to its
// end. One goroutine uses it.
type acquisition struct {
	caller context.Context // of the caller: the parent of both spans
	span   trace.Span
	waited bool
}

type acquisitionKey struct{}

func (t *telemetry) hooks() fencelock.Hooks {
	return fencelock.Hooks{AcquireStart: t.start, AcquireWait: t.wait, AcquireEnd: t.end, OnceEnd: t.occurred, Event: t.event, TraceParent: t.traceParent}
}

func (t *telemetry) event(e fencelock.Event) {
	if t.user.Event != nil {
		t.user.Event(e)
	}
	t.m.event(e)
}

func (t *telemetry) occurred(ctx context.Context, e fencelock.OnceEnd) {
	if t.user.OnceEnd != nil {
		t.user.OnceEnd(ctx, e)
	}
	t.m.occurred(ctx, &e)
}

func (t *telemetry) start(ctx context.Context, s fencelock.AcquireStart) context.Context {
	if t.user.AcquireStart != nil {
		ctx = t.user.AcquireStart(ctx, s)
	}
	a := &acquisition{caller: ctx}
	class := t.m.classes.class(s.Name)
	ctx, a.span = t.tracer.Start(ctx, spanName("acquire", class), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(t.attrs(s.Name, class, modeKey.String(s.Mode.String()), tryKey.Bool(s.Try))...))
	return context.WithValue(ctx, acquisitionKey{}, a)
}

func (t *telemetry) wait(ctx context.Context, w fencelock.AcquireWait) {
	if t.user.AcquireWait != nil {
		t.user.AcquireWait(ctx, w)
	}
	a, ok := ctx.Value(acquisitionKey{}).(*acquisition)
	if !ok {
		return
	}
	a.waited = true
	t.m.waiters.Add(ctx, 1, t.m.set(t.m.classAttr(t.m.classes.class(w.Name))))
	attrs := []attribute.KeyValue{positionKey.Int(w.Position)}
	if w.Holder != nil {
		attrs = append(attrs, holderKey.String(w.Holder.Record.Owner), tokenKey.Int64(int64(w.Holder.Token)))
		link(a.span, w.Holder)
	}
	a.span.AddEvent("queued", trace.WithAttributes(attrs...))
}

func (t *telemetry) end(ctx context.Context, e fencelock.AcquireEnd) {
	if t.user.AcquireEnd != nil {
		t.user.AcquireEnd(ctx, e)
	}
	a, ok := ctx.Value(acquisitionKey{}).(*acquisition)
	if !ok {
		return
	}
	t.m.acquired(ctx, &e, a.waited)
	how := outcome(e.Err)
	a.span.SetAttributes(outcomeKey.String(how))
	var busy *fencelock.BusyError
	switch {
	case e.Lease != nil:
		a.span.SetAttributes(tokenKey.Int64(int64(e.Lease.Token())))
		t.hold(a, e.Lease)
	case answeredInGrace(e.Err): // an answer, no failure
	case errors.As(e.Err, &busy): // an answer, no failure
		if len(busy.Holders) > 0 {
			a.span.SetAttributes(holderKey.String(busy.Holders[0].Record.Owner))
			link(a.span, &busy.Holders[0])
		}
	default:
		a.span.SetAttributes(errorKey.String(how))
		a.span.SetStatus(codes.Error, e.Err.Error())
	}
	a.span.End()
}

// answeredInGrace reports whether a try was answered in a grace period. A wait that ended in one is a failure.
func answeredInGrace(err error) bool {
	_, is := err.(*fencelock.GraceError)
	return is
}

// hold spans the life of a lease. It follows the lease's context instead of
// events: those do not distinguish leases without tokens. A context costs, so
// only a span that is recorded gets one.
func (t *telemetry) hold(a *acquisition, l *fencelock.Lease) {
	class := t.m.classes.class(l.Name())
	_, span := t.tracer.Start(a.caller, spanName("hold", class),
		trace.WithAttributes(t.attrs(l.Name(), class, tokenKey.Int64(int64(l.Token())))...))
	if !span.IsRecording() {
		return
	}
	held := l.Context()
	context.AfterFunc(held, func() {
		if err := context.Cause(held); errors.Is(err, fencelock.ErrLost) {
			span.SetAttributes(endKey.String("lost"))
			span.AddEvent("lost", trace.WithAttributes(reasonKey.String(lossReason(err))))
			span.SetStatus(codes.Error, err.Error())
		} else {
			span.SetAttributes(endKey.String("released"))
		}
		span.End()
	})
}

// attrs are the attributes of a span about a lock.
func (t *telemetry) attrs(lock, class string, more ...attribute.KeyValue) []attribute.KeyValue {
	all := append([]attribute.KeyValue{t.m.store, lockKey.String(lock)}, more...)
	if class != "" {
		all = append(all, classKey.String(class))
	}
	return all
}

// spanName keeps the names of spans few: the lock is an attribute.
func spanName(what, class string) string {
	if class == "" {
		return what
	}
	return what + " " + class
}

// traceHeader is the W3C header, and the key of our carrier.
const traceHeader = "traceparent"

func (t *telemetry) traceParent(ctx context.Context) string {
	if t.user.TraceParent != nil {
		return t.user.TraceParent(ctx)
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceHeader]
}

// link links a span to the trace of the holder in the way, if that has a valid
// one: what is in the store was written by others.
func link(span trace.Span, h *fencelock.Holder) {
	carrier := propagation.MapCarrier{traceHeader: h.Record.Trace}
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier)
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		span.AddLink(trace.Link{SpanContext: sc, Attributes: []attribute.KeyValue{holderKey.String(h.Record.Owner)}})
	}
}
